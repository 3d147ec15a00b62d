//! `limit` and `multiLimit`: from a call to its verdict.
//!
//! Promises: nothing is counted before everything that could refuse the call was looked at; after
//! that nothing fails. A store of the control plane that is away refuses nobody.
//!
//! # Cancel safety
//! A client that leaves while the region is asked has spent nothing, or, in a bounded namespace,
//! all that the region was asked to grant: nobody can take it back. A call with an
//! `Idempotency-Key` is decided to its end in any case, and its reply is kept.

use std::sync::Arc;

use bytes::Bytes;
use tidegate::{
    Answer, Batch, BatchAnswer, Consistency, Cost, Limit, Outage, Part, Request, Subject, Window,
};
use tidegate_stores::control::Mode;

use super::{Call, Defaults, Door};
use crate::auth::Caller;
use crate::control::overrides::Override;
use crate::control::permission::Action;
use crate::control::{Namespace, Workspace};
use crate::decode::Item;
use crate::idempotency::Lasts;
use crate::problem::Problem;
use crate::reply::{self, Decided, Known, More};

impl Door {
    /// The namespace of one limit, if that may be asked for.
    pub(super) async fn admit_one(
        &self,
        caller: &Caller,
        item: &Item<'_>,
    ) -> Result<Arc<Namespace>, Problem> {
        let known = caller.workspace.namespace(item.namespace.as_str());
        if let Some(namespace) = known {
            // One that was deleted says so to everybody who may call.
            if namespace.deleted {
                return Err(Problem::namespace_gone());
            }
            caller.may_ids(Action::Limit, &[namespace.id.as_str()])?;
            return Ok(Arc::clone(namespace));
        }
        let named = [item.namespace.as_str()];
        let admitted = Box::pin(self.admit_unknown(caller, &named)).await?;
        admitted.into_iter().next().ok_or_else(Problem::namespace_not_found)
    }

    /// The namespaces of several limits, if they may be asked for.
    pub(super) async fn admit_all(
        &self,
        caller: &Caller,
        items: &[Item<'_>],
    ) -> Result<Vec<Arc<Namespace>>, Problem> {
        match admitted(caller, items) {
            Some(namespaces) => Ok(namespaces),
            None => {
                let named: Vec<&str> = items.iter().map(|item| item.namespace.as_str()).collect();
                Box::pin(self.admit_unknown(caller, &named)).await
            }
        }
    }

    /// The same when something is to be said against it, or not all of them are known.
    async fn admit_unknown(
        &self,
        caller: &Caller,
        named: &[&str],
    ) -> Result<Vec<Arc<Namespace>>, Problem> {
        check(caller, &caller.workspace, named)?;
        let mut workspace = Arc::clone(&caller.workspace);
        let missing = missing(&workspace, named);
        if !missing.is_empty() {
            self.enter_namespaces(caller, missing).await?;
            if let Some(now) = self.control.known().workspace(&workspace.id) {
                workspace = Arc::clone(now);
            }
            check(caller, &workspace, named)?;
        }
        let found = |name: &&str| match workspace.namespace(name) {
            Some(namespace) => Arc::clone(namespace),
            None => Arc::new(Namespace::unlisted(name)),
        };
        Ok(named.iter().map(found).collect())
    }

    /// Enters namespaces that nobody named before. Those that cannot be entered are limited all
    /// the same.
    async fn enter_namespaces(&self, caller: &Caller, names: Vec<&str>) -> Result<(), Problem> {
        let (ids, mut names): (Vec<&str>, Vec<&str>) =
            names.into_iter().partition(|name| is_id(name));
        // An id that is not known here was given by somebody: it may just not have been heard of.
        // It is never made a name.
        if !ids.is_empty() {
            let looked = self.control.look_soon().await;
            let known = self.control.known();
            let workspace = known.workspace(&caller.workspace.id);
            let unknown = workspace.map_or_else(|| ids.clone(), |now| missing(now, &ids));
            match looked {
                Ok(()) if !unknown.is_empty() => return Err(Problem::namespace_not_found()),
                // Nobody can say whose they are; who may ask them by their id is let in.
                _ => caller.may_ids(Action::Limit, &unknown)?,
            }
        }
        if names.is_empty() {
            return Ok(());
        }
        // Nothing is made for a call that is refused. Nobody has a permission for a namespace that
        // is not there, but for all.
        caller.may_everywhere(Action::CreateNamespace)?;
        caller.may_everywhere(Action::Limit)?;
        names.sort_unstable();
        names.dedup();
        self.control.enter(&caller.workspace.id, &names, &caller.key.id).await;
        Ok(())
    }

    /// One limit.
    pub(super) async fn limit(
        &self,
        call: &Call<'_>,
        item: &Item<'_>,
        namespace: &Namespace,
    ) -> Result<(Bytes, Lasts), Problem> {
        let Call { caller, request_id, .. } = call;
        let terms = self.terms(item, namespace);
        let request = terms.request(caller)?;
        let decided = match namespace.mode {
            Mode::Off => terms.off(self.control.unix_ms()),
            Mode::Enforce | Mode::Shadow => {
                let answer = self.limiter.check(&request).await;
                self.decided(&answer, &terms)
            }
        };
        let admitted = decided.admitted;
        self.noted.decided(&caller.workspace.id, admitted, [admitted].into_iter());
        let lasts = lasts(admitted, &[terms], std::slice::from_ref(&decided));
        Ok((reply::limit(request_id, &decided), lasts))
    }

    /// Several limits as one.
    pub(super) async fn multi_limit(
        &self,
        call: &Call<'_>,
        items: &[Item<'_>],
        namespaces: &[Arc<Namespace>],
    ) -> Result<(Bytes, Lasts), Problem> {
        let Call { caller, request_id, .. } = call;
        let both = items.iter().zip(namespaces);
        let terms: Vec<Terms<'_>> =
            both.map(|(item, namespace)| self.terms(item, namespace)).collect();
        let (passed, decided) = self.decide_all(caller, &terms).await?;
        let admitted = decided.iter().map(|item| item.admitted);
        self.noted.decided(&caller.workspace.id, passed, admitted);
        let lasts = lasts(passed, &terms, &decided);
        Ok((reply::multi_limit(request_id, items, passed, &decided), lasts))
    }

    /// What is enforced is decided as one. What is only tried is decided as another, and not spent
    /// if the first is denied: as it would be if all were enforced.
    ///
    /// # Cancel safety
    /// Once something is spent nothing is waited for: the region was asked about what is only
    /// tried before. The exception is what is only tried in a namespace that is bounded, which has
    /// to be granted too, or that denies in an outage: who leaves then has not spent that.
    async fn decide_all(
        &self,
        caller: &Caller,
        terms: &[Terms<'_>],
    ) -> Result<(bool, Vec<Decided>), Problem> {
        if terms.iter().all(|terms| terms.namespace.mode == Mode::Enforce) {
            return self.decide_enforced(caller, terms).await;
        }
        let unix_ms = self.control.unix_ms();
        let mut decided: Vec<Decided> = terms.iter().map(|terms| terms.off(unix_ms)).collect();
        let (enforced, tried) = (Chosen::of(terms, Mode::Enforce), Chosen::of(terms, Mode::Shadow));
        let rooms = tried.requests(caller, Some(nothing()))?;
        let rooms = match Batch::new(&rooms) {
            Ok(batch) => self.limiter.check_all(&batch).await,
            Err(_) => BatchAnswer::default(),
        };
        let requests = enforced.requests(caller, None)?;
        let passed = match Batch::new(&requests) {
            Ok(batch) => {
                let answer = self.limiter.check_all(&batch).await;
                enforced.tell(answer.items(), &mut decided, |answer, terms| {
                    self.decided(answer, terms)
                });
                answer.admitted()
            }
            // None is enforced.
            Err(_) => true,
        };
        if !passed {
            tried.tell(rooms.items(), &mut decided, |room, terms| self.tried(room, terms));
            return Ok((false, decided));
        }
        let requests = tried.requests(caller, None)?;
        if let Ok(batch) = Batch::new(&requests) {
            let answer = match tried.waits() {
                true => self.limiter.check_all(&batch).await,
                false => self.limiter.check_all_now(&batch),
            };
            tried.tell(answer.items(), &mut decided, |answer, terms| self.decided(answer, terms));
        }
        Ok((passed, decided))
    }

    /// The same where all are enforced, as nearly always: there is nothing to choose.
    async fn decide_enforced(
        &self,
        caller: &Caller,
        terms: &[Terms<'_>],
    ) -> Result<(bool, Vec<Decided>), Problem> {
        let mut requests = Vec::with_capacity(terms.len());
        for terms in terms {
            requests.push(terms.request(caller)?);
        }
        // One of nothing is admitted.
        let Ok(batch) = Batch::new(&requests) else { return Ok((true, Vec::new())) };
        let answer = self.limiter.check_all(&batch).await;
        let both = answer.items().iter().zip(terms);
        let decided = both.map(|(answer, terms)| self.decided(answer, terms)).collect();
        Ok((answer.admitted(), decided))
    }

    /// What an item is measured by.
    pub(super) fn terms<'a>(&self, item: &Item<'a>, namespace: &'a Namespace) -> Terms<'a> {
        Terms::of(item, namespace, self.rules_of(namespace))
    }

    /// What the admissions of a namespace are worth, and what becomes of its requests when the
    /// region cannot be asked.
    pub(super) fn rules_of(&self, namespace: &Namespace) -> Defaults {
        let defaults = self.live.defaults();
        Defaults {
            consistency: namespace.consistency.unwrap_or(defaults.consistency),
            outage: namespace.outage.unwrap_or(defaults.outage),
        }
    }

    /// What is only tried, and not even spent: `room` asked for nothing.
    fn tried(&self, room: &Answer, terms: &Terms<'_>) -> Decided {
        let mut decided = self.decided(room, terms);
        let fits = room.admitted() && room.remaining() >= terms.cost.get();
        decided.more.would_deny = (!fits).then_some(true);
        decided
    }

    /// The answer as the caller hears of it.
    pub(super) fn decided(&self, answer: &Answer, terms: &Terms<'_>) -> Decided {
        let mut decided = Decided::of(answer);
        if self.in_region {
            decided.more.known = Some(Known::of(answer));
        }
        terms.complete(&mut decided);
        decided
    }
}

/// The items of one mode, and where they stand.
struct Chosen<'t, 'a>(Vec<(usize, &'t Terms<'a>)>);

impl<'t, 'a> Chosen<'t, 'a> {
    fn of(terms: &'t [Terms<'a>], mode: Mode) -> Self {
        let is_meant = |terms: &Terms<'_>| terms.namespace.mode == mode;
        // A filter does not say how many it will let through: what it fills would grow twice.
        let mut chosen = Vec::with_capacity(terms.iter().filter(|it| is_meant(it)).count());
        chosen.extend(terms.iter().enumerate().filter(|(_, terms)| is_meant(terms)));
        Self(chosen)
    }

    /// Whether the region has to grant any of them, or to be heard of any.
    fn waits(&self) -> bool {
        self.0.iter().any(|(_, Terms { rules, .. })| {
            rules.consistency == Consistency::Bounded || rules.outage == Outage::Deny
        })
    }

    /// What the limiter is asked, for their own cost or for this one.
    fn requests(
        &self,
        caller: &'a Caller,
        cost: Option<Cost>,
    ) -> Result<Vec<Request<'a>>, Problem> {
        let mut requests = Vec::with_capacity(self.0.len());
        for (_, terms) in &self.0 {
            let own = terms.request(caller)?;
            let cost = cost.unwrap_or(terms.cost);
            let request = Request::new(*own.subject(), own.limit(), cost);
            requests.push(request.with_consistency(own.consistency()).with_outage(own.outage()));
        }
        Ok(requests)
    }

    /// Puts the answers where the items stand.
    fn tell(
        &self,
        answers: &[Answer],
        decided: &mut [Decided],
        tell: impl Fn(&Answer, &Terms<'a>) -> Decided,
    ) {
        for ((at, terms), answer) in self.0.iter().zip(answers) {
            if let Some(place) = decided.get_mut(*at) {
                *place = tell(answer, terms);
            }
        }
    }
}

/// How long a reply holds. What was denied only because the region could not be asked may be
/// admitted in a moment. Where the region has to grant it, it may have been asked in vain, and then
/// it is charged.
fn lasts(passed: bool, terms: &[Terms<'_>], decided: &[Decided]) -> Lasts {
    let others = |item: &Decided| !item.admitted && !item.is_outage();
    if passed || decided.iter().any(others) {
        return Lasts::Long;
    }
    let is_granted = |terms: &Terms<'_>| {
        terms.namespace.mode == Mode::Enforce && terms.rules.consistency == Consistency::Bounded
    };
    if terms.iter().any(is_granted) { Lasts::Briefly } else { Lasts::Not }
}

/// A cost of nothing spends nothing, and says how much room there is.
fn nothing() -> Cost {
    Cost::new(0).unwrap_or(Cost::ONE)
}

/// Whether a name has the form of an id.
fn is_id(name: &str) -> bool {
    let tail = name.strip_prefix("rlns_").unwrap_or_default();
    tail.len() == 9 && tail.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// The namespaces of all items, if they are known and may be asked, and none was deleted. Items
/// that follow each other are often of the same one.
fn admitted(caller: &Caller, items: &[Item<'_>]) -> Option<Vec<Arc<Namespace>>> {
    let mut namespaces: Vec<Arc<Namespace>> = Vec::with_capacity(items.len());
    let mut named_last = "";
    for item in items {
        let named = item.namespace.as_str();
        let last = namespaces.last().filter(|_| named == named_last);
        let namespace = last.or_else(|| caller.workspace.namespace(named))?;
        let may = || caller.key.grants.within(Action::Limit, &namespace.id);
        if last.is_none() && (namespace.deleted || !may()) {
            return None;
        }
        namespaces.push(Arc::clone(namespace));
        named_last = named;
    }
    Some(namespaces)
}

/// Those that are not known.
fn missing<'n>(workspace: &Workspace, names: &[&'n str]) -> Vec<&'n str> {
    names.iter().copied().filter(|name| workspace.namespace(name).is_none()).collect()
}

/// Whether the namespaces that are known may be asked, and are there.
fn check(caller: &Caller, workspace: &Workspace, named: &[&str]) -> Result<(), Problem> {
    let mut known: Vec<&Namespace> =
        named.iter().filter_map(|name| workspace.namespace(name)).map(|found| &**found).collect();
    known.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    known.dedup_by(|a, b| a.name == b.name);
    caller.may(Action::Limit, known.iter().copied())?;
    if known.iter().any(|namespace| namespace.deleted) {
        return Err(Problem::namespace_gone());
    }
    Ok(())
}

/// What a mode is called.
pub(super) const fn mode_word(mode: Mode) -> &'static str {
    match mode {
        Mode::Enforce => "enforce",
        Mode::Shadow => "shadow",
        Mode::Off => "off",
    }
}

/// What an item is measured by: its own numbers, or those of the override that applies to it.
pub(super) struct Terms<'a> {
    pub(super) namespace: &'a Namespace,
    pub(super) applies: Option<&'a Override>,
    identifier: Part<'a>,
    limit: Limit,
    window: Window,
    cost: Cost,
    rules: Defaults,
}

impl<'a> Terms<'a> {
    fn of(item: &Item<'a>, namespace: &'a Namespace, rules: Defaults) -> Self {
        let applies = namespace.overrides.find(item.identifier.as_str()).map(|one| &**one);
        let (limit, window) = match applies {
            Some(one) => (one.limit, one.window),
            None => (item.limit, item.window),
        };
        let (identifier, cost) = (item.identifier, item.cost);
        Self { namespace, applies, identifier, limit, window, cost, rules }
    }

    /// What the limiter is asked. A namespace counts under its name, which it has even while it
    /// cannot be entered.
    pub(super) fn request(&self, caller: &'a Caller) -> Result<Request<'a>, Problem> {
        let part = |text| Part::new(text).map_err(|_| Problem::namespace_not_found());
        let (workspace, namespace) = (part(&caller.workspace.id)?, part(&self.namespace.name)?);
        let subject = Subject::new(workspace, namespace, self.identifier, self.window);
        let request = Request::new(subject, self.limit, self.cost);
        let Defaults { consistency, outage } = self.rules;
        Ok(request.with_consistency(consistency).with_outage(outage))
    }

    /// The answer of a namespace that is switched off: nothing is counted.
    pub(super) fn off(&self, unix_ms: u64) -> Decided {
        let (limit, window_ms) = (self.limit.get(), self.window.as_millis());
        let sequence = unix_ms.checked_div(window_ms).unwrap_or_default();
        let reset = sequence.saturating_add(1).saturating_mul(window_ms);
        let more = More::default();
        let mut decided = Decided { limit, remaining: limit, reset, admitted: true, more };
        self.complete(&mut decided);
        decided
    }

    /// Adds what the namespace has to say.
    fn complete(&self, decided: &mut Decided) {
        let more = &mut decided.more;
        more.override_id = self.applies.map(|one| one.id.clone());
        match self.namespace.mode {
            Mode::Enforce => {}
            mode @ Mode::Off => more.mode = Some(mode_word(mode)),
            mode @ Mode::Shadow => {
                more.mode = Some(mode_word(mode));
                more.would_deny = (!decided.admitted).then_some(true);
                decided.admitted = true;
            }
        }
        if !self.namespace.is_listed() {
            let known = more.known.take();
            let (source, consistency) = ("local", None);
            let alone = Known { source, age_ms: 0, degraded: true, consistency };
            let known = known.unwrap_or(alone);
            more.known = Some(Known { degraded: true, ..known });
        }
    }
}
