//! Saying why, without changing anything.

#[cfg(feature = "region")]
use tidegate_convergence::GlobeView;
use tidegate_limiter::{Explanation, Request, Subject, SubjectView};

use super::Limiter;

/// What this process knows of a subject: see [`Limiter::inspect`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspection {
    /// What decisions are made on.
    pub here: SubjectView,
    /// What the regions have published, as far as this process has heard; `None` if there are no
    /// others.
    #[cfg(feature = "region")]
    pub globe: Option<GlobeView>,
}

impl Limiter {
    /// What this process knows of a subject. Takes nothing in and changes nothing; for what the
    /// region knows, there is `ask_region`.
    ///
    /// ```
    /// use tidegate::{Cost, Limit, Limiter, Part, Request, Subject, Window};
    ///
    /// let limiter = Limiter::builder().build()?;
    /// let window = Window::from_millis(86_400_000)?;
    /// let subject = Subject::new(Part::new("w")?, Part::new("n")?, Part::new("i")?, window);
    /// assert!(!limiter.inspect(&subject).here.known);
    ///
    /// let _ = limiter.check_now(&Request::new(subject, Limit::new(5), Cost::new(3)?));
    /// let seen = limiter.inspect(&subject).here;
    /// assert_eq!(seen.current.mine, 3);
    /// assert_eq!(seen.current.sequence, seen.now.unix_ms() / 86_400_000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn inspect(&self, subject: &Subject<'_>) -> Inspection {
        let here = self.table.inspect(subject, self.clock.now());
        #[cfg(feature = "region")]
        let globe = self.region.as_ref().and_then(|region| region.globe_view(&here));
        Inspection {
            here,
            #[cfg(feature = "region")]
            globe,
        }
    }

    /// What would become of a request now, and why: each term of the decision, and whether the
    /// region would be asked first. Spends nothing and changes nothing.
    ///
    /// ```
    /// use tidegate::{Cost, Denial, Limit, Limiter, Part, Request, Subject, Window};
    ///
    /// let limiter = Limiter::builder().build()?;
    /// let window = Window::from_millis(86_400_000)?;
    /// let subject = Subject::new(Part::new("w")?, Part::new("n")?, Part::new("i")?, window);
    /// let request = Request::new(subject, Limit::new(5), Cost::new(3)?);
    /// assert!(limiter.check_now(&request).admitted());
    ///
    /// let why = limiter.explain(&request);
    /// assert_eq!((why.subject.current.view(), why.cost, why.limit), (3, 3, 5));
    /// assert_eq!(why.answer.denial(), Some(Denial::Limit));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn explain(&self, request: &Request<'_>) -> Explanation {
        self.table.explain(request, self.clock.now())
    }
}
