//! What a key may do.
//!
//! A permission is `ratelimit.<namespace id or *>.<action>`. For reading overrides there is a
//! second form, `unkey:v1:<workspace>:<path>#<action>`, whose path may have `*` for one part and
//! `**` for all that follow. What is neither grants nothing.

use std::collections::BTreeMap;

#[cfg(test)]
mod tests;

/// Everything that needs a permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Action {
    Limit,
    CreateNamespace,
    SetOverride,
    ReadOverride,
    DeleteOverride,
    /// Look into counts: explain and inspect. Ours.
    Look,
}

impl Action {
    const ALL: [Self; 6] = [
        Self::Limit,
        Self::CreateNamespace,
        Self::SetOverride,
        Self::ReadOverride,
        Self::DeleteOverride,
        Self::Look,
    ];

    const fn word(self) -> &'static str {
        match self {
            Self::Limit => "limit",
            Self::CreateNamespace => "create_namespace",
            Self::SetOverride => "set_override",
            Self::ReadOverride => "read_override",
            Self::DeleteOverride => "delete_override",
            Self::Look => "look",
        }
    }

    /// The permission for a namespace, or for all of them.
    pub(crate) fn permission(self, namespace: Option<&str>) -> String {
        format!("ratelimit.{}.{}", namespace.unwrap_or("*"), self.word())
    }

    /// The permissions of a key that may do everything.
    pub(crate) fn everything() -> Vec<String> {
        Self::ALL.map(|action| action.permission(None)).to_vec()
    }

    fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.word() == word)
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// What one key may do.
#[derive(Debug, Default)]
pub(crate) struct Grants {
    /// In every namespace, as bits.
    everywhere: u8,
    by_namespace: BTreeMap<String, u8>,
    urns: Vec<Urn>,
}

/// A grant of the second form.
#[derive(Debug)]
struct Urn {
    workspace: String,
    path: Vec<String>,
    action: String,
}

/// Whether a text is a permission that grants something.
pub(crate) fn is_permission(text: &str) -> bool {
    let grants = Grants::of([text]);
    grants.everywhere != 0 || !grants.by_namespace.is_empty() || !grants.urns.is_empty()
}

impl Grants {
    /// Reads them.
    pub(crate) fn of<'a>(permissions: impl IntoIterator<Item = &'a str>) -> Self {
        let mut grants = Self::default();
        for text in permissions {
            if let Some((namespace, action)) = plain(text) {
                match namespace {
                    "*" => grants.everywhere |= action.bit(),
                    id => *grants.by_namespace.entry(id.to_owned()).or_default() |= action.bit(),
                }
            } else if let Some(urn) = Urn::parse(text) {
                grants.urns.push(urn);
            }
        }
        grants
    }

    /// Whether the action is granted in every namespace.
    pub(crate) const fn everywhere(&self, action: Action) -> bool {
        self.everywhere & action.bit() != 0
    }

    /// Whether the action is granted in this one.
    pub(crate) fn within(&self, action: Action, namespace: &str) -> bool {
        self.everywhere(action)
            || self.by_namespace.get(namespace).is_some_and(|bits| bits & action.bit() != 0)
    }

    /// Whether this override may be read.
    pub(crate) fn reads(&self, workspace: &str, namespace: &str, id: &str) -> bool {
        let path = ["ratelimits", "namespaces", namespace, "overrides", id];
        self.within(Action::ReadOverride, namespace)
            || self.urns.iter().any(|urn| urn.allows(workspace, &path, Action::ReadOverride))
    }
}

fn plain(text: &str) -> Option<(&str, Action)> {
    let (namespace, action) = text.strip_prefix("ratelimit.")?.rsplit_once('.')?;
    Some((namespace, Action::parse(action)?)).filter(|_| !namespace.is_empty())
}

impl Urn {
    fn parse(text: &str) -> Option<Self> {
        let (resource, action) = text.strip_prefix("unkey:v1:")?.rsplit_once('#')?;
        let (workspace, path) = resource.split_once(':')?;
        let known = action == "*" || Action::parse(action).is_some();
        if workspace.is_empty() || path.is_empty() || !known {
            return None;
        }
        let path = path.split('/').map(str::to_owned).collect();
        Some(Self { workspace: workspace.to_owned(), path, action: action.to_owned() })
    }

    fn allows(&self, workspace: &str, path: &[&str], action: Action) -> bool {
        let acts = self.action == "*" || self.action == action.word();
        acts && self.workspace == workspace && covers(&self.path, path)
    }
}

fn covers(granted: &[String], path: &[&str]) -> bool {
    match (granted.split_first(), path.split_first()) {
        (Some((part, [])), Some(_)) if part == "**" => true,
        (Some((part, granted)), Some((named, path))) => {
            (part == "*" || part == named) && covers(granted, path)
        }
        (None, None) => true,
        _ => false,
    }
}
