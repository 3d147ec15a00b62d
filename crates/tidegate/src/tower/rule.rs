//! What is limited and by how much, read once.

use std::time::Duration;

use thiserror::Error;

use crate::{Consistency, Cost, Limit, Outage, Part, Request, RequestError, Subject, Window};

/// The workspace of rules that name none.
const WORKSPACE: &str = "default";

/// How much of what each identifier may have: parsed once, so that nothing can be wrong with it
/// when a request comes.
///
/// ```
/// use std::time::Duration;
/// use tidegate::tower::Rule;
///
/// // 100 searches a minute, of which an export takes ten.
/// let search = Rule::new("search", 100, Duration::from_secs(60))?;
/// let export = search.clone().with_cost(10)?;
///
/// let error = Rule::new("", 100, Duration::from_secs(60)).unwrap_err();
/// assert_eq!(error.to_string(), "the namespace must not be empty");
/// let error = Rule::new("search", 100, Duration::from_millis(10)).unwrap_err();
/// assert_eq!(error.to_string(), "the window must be at least 1000 ms");
/// # let _ = export;
/// # Ok::<(), tidegate::tower::RuleError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    workspace: String,
    namespace: String,
    limit: Limit,
    window: Window,
    cost: Cost,
    consistency: Consistency,
    outage: Outage,
}

/// What is wrong with a rule: see [`Rule::with_cost`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RuleError {
    /// The workspace.
    #[error("the workspace {0}")]
    Workspace(#[source] RequestError),
    /// The namespace.
    #[error("the namespace {0}")]
    Namespace(#[source] RequestError),
    /// The window.
    #[error("the window {0}")]
    Window(#[source] RequestError),
    /// The cost.
    #[error("the cost {0}")]
    Cost(#[source] RequestError),
}

impl Rule {
    /// At most `limit` in any `window`, of what `namespace` names, for each identifier. A limit
    /// of 0 denies everything. Two rules with the same namespace and window share their counts.
    ///
    /// # Errors
    /// When the namespace is empty or has more than 512 characters, or the window is shorter than
    /// a second or longer than 31 days. Parts of a millisecond are left out.
    pub fn new(namespace: &str, limit: u64, window: Duration) -> Result<Self, RuleError> {
        let namespace = Part::new(namespace).map_err(RuleError::Namespace)?;
        let window_ms = u64::try_from(window.as_millis()).unwrap_or(u64::MAX);
        Ok(Self {
            workspace: WORKSPACE.to_owned(),
            namespace: namespace.as_str().to_owned(),
            limit: Limit::new(limit),
            window: Window::from_millis(window_ms).map_err(RuleError::Window)?,
            cost: Cost::ONE,
            consistency: Consistency::default(),
            outage: Outage::default(),
        })
    }

    /// Each request takes this much instead of 1. A cost of 0 asks whether there is room and takes
    /// nothing.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::tower::Rule;
    ///
    /// let uploads = Rule::new("uploads", 100, Duration::from_secs(3_600))?.with_cost(10)?;
    /// let of_acme = uploads.with_workspace("acme")?;
    /// assert!(Rule::new("", 1, Duration::from_secs(1)).is_err());
    /// # let _ = of_acme;
    /// # Ok::<(), tidegate::tower::RuleError>(())
    /// ```
    ///
    /// # Errors
    /// Above 2^40.
    pub fn with_cost(mut self, cost: u64) -> Result<Self, RuleError> {
        self.cost = Cost::new(cost).map_err(RuleError::Cost)?;
        Ok(self)
    }

    /// How sure an admission has to be, where several processes share a limit.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{Consistency, tower::Rule};
    ///
    /// let logins = Rule::new("logins", 5, Duration::from_secs(60))?;
    /// let logins = logins.with_consistency(Consistency::Bounded);
    /// # let _ = logins;
    /// # Ok::<(), tidegate::tower::RuleError>(())
    /// ```
    #[must_use]
    pub const fn with_consistency(mut self, consistency: Consistency) -> Self {
        self.consistency = consistency;
        self
    }

    /// What becomes of a request when the region should be asked and cannot be: by default it is
    /// decided on what is known. Where an admission too many is worse than none, it is denied.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{Outage, tower::Rule};
    ///
    /// let logins = Rule::new("logins", 5, Duration::from_secs(60))?;
    /// let logins = logins.with_outage(Outage::Deny);
    /// # let _ = logins;
    /// # Ok::<(), tidegate::tower::RuleError>(())
    /// ```
    #[must_use]
    pub const fn with_outage(mut self, outage: Outage) -> Self {
        self.outage = outage;
        self
    }

    /// Counts in this workspace instead of in `default`: for several customers that must not share
    /// anything, memory included.
    ///
    /// # Errors
    /// When it is empty or has more than 512 characters.
    pub fn with_workspace(mut self, workspace: &str) -> Result<Self, RuleError> {
        let workspace = Part::new(workspace).map_err(RuleError::Workspace)?;
        workspace.as_str().clone_into(&mut self.workspace);
        Ok(self)
    }

    /// The request of one identifier.
    ///
    /// # Errors
    /// When that is not one.
    pub(super) fn request<'a>(&'a self, identifier: &'a str) -> Result<Request<'a>, RequestError> {
        let (workspace, namespace) = (Part::new(&self.workspace)?, Part::new(&self.namespace)?);
        let subject = Subject::new(workspace, namespace, Part::new(identifier)?, self.window);
        let request = Request::new(subject, self.limit, self.cost);
        Ok(request.with_consistency(self.consistency).with_outage(self.outage))
    }

    pub(super) const fn window(&self) -> Window {
        self.window
    }
}
