//! `explain` and `inspect`: what is known, and what it comes to. Neither changes anything.

mod said;

use tidegate::{Credit, Denial, Explanation, Inspection, Part, Reason, Subject, Window};
use tidegate_stores::control::Mode;

use super::{Call, Door};
use crate::auth::Caller;
use crate::control::Namespace;
use crate::control::overrides::Override;
use crate::control::permission::Action;
use crate::decode::{Item, Target};
use crate::problem::Problem;
use crate::reply::{self, Limited, Overridden, Reply};
use said::{Asked, Explained, Inspected, Named, Node, Region, Regions};

impl Door {
    /// How a request would be decided now, term by term.
    pub(super) fn explain(&self, call: &Call<'_>, item: &Item<'_>) -> Result<Reply, Problem> {
        let Call { caller, request_id, .. } = call;
        let namespace = looked_at(caller, item.namespace)?;
        let terms = self.terms(item, namespace);
        let seen = self.limiter.explain(&terms.request(caller)?);
        let decided = match namespace.mode {
            Mode::Off => terms.off(seen.subject.now.unix_ms()),
            Mode::Enforce | Mode::Shadow => self.decided(&seen.answer, &terms),
        };
        let explained = Explained {
            because: because(&seen, namespace, terms.applies),
            answer: Limited::of(&decided),
            namespace: Named::of(namespace, self.rules_of(namespace)),
            r#override: terms.applies.map(Overridden::of),
            terms: said::Terms::of(&seen),
            region: self.in_region.then(|| Asked::of(&seen)),
        };
        Ok(reply::success_of(request_id, explained))
    }

    /// What this process, the region and each region know of a subject.
    pub(super) async fn inspect(
        &self,
        call: &Call<'_>,
        target: &Target<'_>,
        window: Window,
    ) -> Result<Reply, Problem> {
        let Call { caller, request_id, .. } = call;
        let namespace = looked_at(caller, target.namespace)?;
        let part = |text| Part::new(text).map_err(|_| Problem::namespace_not_found());
        let (workspace, name) = (part(&caller.workspace.id)?, part(&namespace.name)?);
        let subject = Subject::new(workspace, name, target.identifier, window);
        let Inspection { here, globe, .. } = self.limiter.inspect(&subject);
        let applies = namespace.overrides.find(target.identifier.as_str());
        let rules = self.rules_of(namespace);
        let inspected = Inspected {
            namespace: Named::of(namespace, rules),
            r#override: applies.map(|one| Overridden::of(one)),
            node: Node::of(&here, self.in_region, rules.consistency),
            region: Region::of(self.limiter.ask_region(&subject).await),
            regions: globe.as_ref().map(|globe| Regions::of(globe, &here)),
        };
        Ok(reply::success_of(request_id, inspected))
    }
}

/// A namespace that the caller may look into. One that was deleted can still be looked at.
fn looked_at<'a>(caller: &'a Caller, named: Part<'_>) -> Result<&'a Namespace, Problem> {
    let namespace = caller.workspace.namespace(named.as_str());
    let namespace = namespace.ok_or_else(Problem::namespace_not_found)?;
    caller.may(Action::Look, [&**namespace])?;
    Ok(namespace)
}

/// The answer in a sentence or two.
fn because(seen: &Explanation, namespace: &Namespace, applies: Option<&Override>) -> String {
    let Explanation { subject, weighted, cost, effective, limit, .. } = seen;
    let current = subject.current.view();
    let fits = if seen.answer.admitted() { "admitted" } else { "denied" };
    let relation = if effective <= limit { "not above" } else { "above" };
    let mut said = format!(
        "{fits}: {current} in this window, {weighted} of the previous one and a cost of {cost} \
         are {effective}, {relation} the limit of {limit}"
    );
    if let Some(one) = applies {
        said.push_str(&format!(" of the override `{}`", one.pattern));
    }
    if seen.is_by_reservations() {
        said.push_str("; requests that are being decided hold the room");
    }
    if !seen.answer.admitted() {
        match seen.answer.retry_after_ms() {
            Some(ms) if seen.answer.denial() == Some(Denial::Outage) => {
                said.push_str(&format!(", but the region cannot be asked; it is tried in {ms} ms"));
            }
            Some(ms) => said.push_str(&format!("; it fits in {ms} ms")),
            None => said.push_str("; it never fits"),
        }
    }
    match namespace.mode {
        Mode::Enforce => {}
        Mode::Shadow => said.push_str(". The namespace is in shadow: it is admitted anyway"),
        Mode::Off => said.push_str(". The namespace is off: it is admitted, and nothing counts"),
    }
    if namespace.mode != Mode::Off {
        said.extend(seen.credit.as_ref().map(lent));
        said.extend(seen.asks.map(|reason| asks(seen, reason)));
    }
    said.push('.');
    said
}

/// What may be admitted without asking, in a sentence.
fn lent(credit: &Credit) -> String {
    let Credit { room, processes, most, used, .. } = credit;
    let whose = match processes {
        0 => "it is not known yet how many processes use it".to_owned(),
        1 => "no other process uses it".to_owned(),
        _ => format!("{processes} processes use it"),
    };
    format!(
        ". It is bounded: {room} are free and {whose}, so this process may admit {most} before the \
         region has recorded them; {used} are not recorded yet"
    )
}

/// Why the region is asked first, in a sentence.
fn asks(seen: &Explanation, reason: Reason) -> String {
    let why = match reason {
        Reason::Cold => "nothing is known of it here yet",
        Reason::Stale => "what is known of it here is too old",
        Reason::Strict => "it was at its limit a moment ago",
        Reason::Credit => "with this cost it would be more than that",
        Reason::Reserved => "requests that wait for it hold the room",
        _ => "the window is new and the cost is a large part of the limit",
    };
    let how = match (seen.asked_in_vain, reason, seen.credit) {
        (true, ..) => "should be asked first, but did not answer a moment ago",
        (_, Reason::Reserved, _) => "is waited for",
        (.., Some(_)) => "has to grant it first",
        (.., None) => "is asked first and may know more",
    };
    format!(". The region {how}: {why}")
}
