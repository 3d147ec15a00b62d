//! The operations on overrides. Each first learns what other processes changed, so that what was
//! done through one of them can be seen through any.

use std::sync::Arc;

use tidegate_stores::control::{Change, ControlError};

use super::{Call, Door};
use crate::auth::Caller;
use crate::control::overrides::{GLOBS_MAX, PIECES_MAX, has_too_many_pieces, is_glob};
use crate::control::permission::Action;
use crate::control::{self, Directory, Namespace, Workspace};
use crate::decode::{FieldError, Listing, PAGE_DEFAULT, Setting, Target};
use crate::ids::Kind;
use crate::problem::Problem;
use crate::reply::{self, Reply};

impl Door {
    pub(super) async fn set_override(
        &self,
        call: &Call<'_>,
        setting: &Setting<'_>,
    ) -> Result<Reply, Problem> {
        let Call { caller, request_id, .. } = call;
        let Target { namespace, identifier } = setting.target;
        let namespace = self.live(caller, namespace.as_str()).await?;
        caller.may(Action::SetOverride, [&*namespace])?;
        let pattern = identifier.as_str();
        check_pieces(pattern)?;
        let change = Change::SetOverride {
            id: control::id(Kind::Override)?,
            namespace: namespace.id.clone(),
            pattern: pattern.to_owned(),
            limit: setting.limit.get(),
            window_ms: setting.window.as_millis(),
        };
        // Under the lock of changes, or many at once would all be the last that fits.
        let check = |known: &Directory| {
            let workspace = known.workspace(&caller.workspace.id);
            let now = workspace.and_then(|workspace| workspace.namespace(&namespace.id));
            now.map_or(Ok(()), |now| check_globs(now, pattern))
        };
        let changed = self.control.change_if(&change, &caller.key.id, check).await?;
        let set = changed.overrides.first().ok_or_else(Problem::store_away)?;
        Ok(reply::override_set(request_id, &set.id))
    }

    pub(super) async fn get_override(
        &self,
        call: &Call<'_>,
        target: &Target<'_>,
    ) -> Result<Reply, Problem> {
        let Call { caller, request_id, .. } = call;
        let namespace = self.live(caller, target.namespace.as_str()).await?;
        let found = namespace.overrides.find(target.identifier.as_str());
        // Who may not read it is not told that it is there.
        let readable = found
            .filter(|one| caller.key.grants.reads(&caller.workspace.id, &namespace.id, &one.id));
        let one = readable.ok_or_else(Problem::override_not_found)?;
        Ok(reply::override_found(request_id, one))
    }

    pub(super) async fn list_overrides(
        &self,
        call: &Call<'_>,
        listing: &Listing<'_>,
    ) -> Result<Reply, Problem> {
        let Call { caller, request_id, .. } = call;
        let workspace = self.home(caller).await;
        let namespace = workspace.namespace(listing.namespace.as_str());
        let namespace = namespace.ok_or_else(Problem::namespace_not_found)?;
        caller.may(Action::ReadOverride, [&**namespace])?;
        let all = namespace.overrides.all();
        let from = listing.cursor.unwrap_or_default();
        let from = all.partition_point(|one| one.id.as_str() < from);
        let rest = all.get(from..).unwrap_or_default();
        let size = usize::try_from(listing.limit.unwrap_or(PAGE_DEFAULT)).unwrap_or(usize::MAX);
        let (page, next) = rest.split_at_checked(size).unwrap_or((rest, &[]));
        let next = next.first().map(|one| one.id.as_str());
        Ok(reply::overrides(request_id, page, next))
    }

    pub(super) async fn delete_override(
        &self,
        call: &Call<'_>,
        target: &Target<'_>,
    ) -> Result<Reply, Problem> {
        let Call { caller, request_id, .. } = call;
        let namespace = self.live(caller, target.namespace.as_str()).await?;
        caller.may(Action::DeleteOverride, [&*namespace])?;
        let pattern = target.identifier.as_str();
        if namespace.overrides.get(pattern).is_none() {
            return Err(Problem::override_not_found());
        }
        let (namespace, pattern) = (namespace.id.clone(), pattern.to_owned());
        let change = Change::DeleteOverride { namespace, pattern };
        match self.control.change(&change, &caller.key.id).await {
            Ok(_) => Ok(reply::done(request_id)),
            // Somebody else was quicker.
            Err(ControlError::NotFound(_)) => Err(Problem::override_not_found()),
            Err(why) => Err(why.into()),
        }
    }

    /// The caller's workspace as the store has it; as it is known here, while the store is away.
    async fn home(&self, caller: &Caller) -> Arc<Workspace> {
        let _ = self.control.look_soon().await;
        let known = self.control.known();
        Arc::clone(known.workspace(&caller.workspace.id).unwrap_or(&caller.workspace))
    }

    /// A namespace that is there and was not deleted.
    async fn live(&self, caller: &Caller, named: &str) -> Result<Arc<Namespace>, Problem> {
        let workspace = self.home(caller).await;
        let namespace = workspace.namespace(named).filter(|namespace| !namespace.deleted);
        namespace.cloned().ok_or_else(Problem::namespace_not_found)
    }
}

/// Patterns that have to be tried one by one are few.
fn check_globs(namespace: &Namespace, pattern: &str) -> Result<(), Problem> {
    let is_new = namespace.overrides.get(pattern).is_none();
    if !is_new || !is_glob(pattern) || namespace.overrides.globs() < GLOBS_MAX {
        return Ok(());
    }
    Err(refused_pattern(format!(
        "has text between two `*`, as {GLOBS_MAX} others of this namespace have"
    )))
}

/// And none of them is long to try.
fn check_pieces(pattern: &str) -> Result<(), Problem> {
    if !has_too_many_pieces(pattern) {
        return Ok(());
    }
    Err(refused_pattern(format!("has more than {PIECES_MAX} pieces of text between its `*`")))
}

fn refused_pattern(message: String) -> Problem {
    let error = FieldError {
        location: "body.identifier".to_owned(),
        message: message.into(),
        fix: Some("use patterns such as `text*`, `*text` or `text*text`"),
    };
    Problem::schema("/v2/ratelimit.setOverride", vec![error])
}
