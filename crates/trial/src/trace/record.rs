//! One request of a trace: its time, and the fields that a policy asks for.

/// Which fields are asked for. A field has a number: its place in the order of asking.
///
/// ```
/// use tidegate_trial::{Fields, Record};
///
/// let mut fields = Fields::default();
/// let (ip, path) = (fields.want("ip"), fields.want("path"));
/// assert_eq!((fields.want("ip"), fields.number("path")), (ip, Some(path)));
///
/// let mut record = Record::default();
/// record.begin(&fields, 1_700_000_000_000);
/// record.set(ip, "203.0.113.7");
/// assert_eq!((record.get(ip), record.get(path)), (Some("203.0.113.7"), None));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Fields {
    names: Vec<(String, bool)>,
}

impl Fields {
    /// Asks for a field, and says its number. Without it there is no trial. The [type](Self) has
    /// an example.
    pub fn want(&mut self, name: &str) -> usize {
        self.ask(name, true)
    }

    /// Asks for a field that may be missing in all of the trace.
    pub fn want_if_there(&mut self, name: &str) -> usize {
        self.ask(name, false)
    }

    fn ask(&mut self, name: &str, needed: bool) -> usize {
        if let Some(at) = self.number(name) {
            if let Some((_, was)) = self.names.get_mut(at) {
                *was |= needed;
            }
            return at;
        }
        self.names.push((name.to_owned(), needed));
        self.names.len().saturating_sub(1)
    }

    /// The number of a field, if it is asked for. The [type](Self) has an example.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|(it, _)| it == name)
    }

    /// Their names, by number, and whether they are needed.
    pub fn iter(&self) -> impl Iterator<Item = (&str, bool)> {
        self.names.iter().map(|(name, needed)| (name.as_str(), *needed))
    }

    /// How many are asked for.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether none is asked for.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

/// One request: when it came, and the values of the [fields](Fields) that are asked for. It is
/// filled again and again, so that reading allocates nothing. [`Fields`] has an example.
#[derive(Clone, Debug, Default)]
pub struct Record {
    at_unix_ms: u64,
    origin: Option<u64>,
    /// The values, one after the other.
    text: String,
    /// By number, where each begins in the text and ends.
    spans: Vec<Option<(u32, u32)>>,
}

impl Record {
    /// Forgets what was in it. [`Fields`] has an example.
    pub fn begin(&mut self, fields: &Fields, at_unix_ms: u64) {
        self.at_unix_ms = at_unix_ms;
        self.origin = None;
        self.text.clear();
        self.spans.clear();
        self.spans.resize(fields.len(), None);
    }

    /// Sets the value of a field. An empty value is none. [`Fields`] has an example.
    pub fn set(&mut self, field: usize, value: &str) {
        let Ok(start) = u32::try_from(self.text.len()) else { return };
        self.text.push_str(value);
        let Ok(end) = u32::try_from(self.text.len()) else { return };
        if let Some(span) = self.spans.get_mut(field) {
            *span = (start < end).then_some((start, end));
        }
    }

    /// Leaves only a part of a value: from `start` to `end`, in bytes.
    pub(crate) fn narrow(&mut self, field: usize, start: usize, end: usize) {
        let Some(Some((from, to))) = self.spans.get_mut(field) else { return };
        let base = *from;
        let at = |offset: usize| base.saturating_add(u32::try_from(offset).unwrap_or(u32::MAX));
        (*from, *to) = (at(start).min(*to), at(end).min(*to));
    }

    /// The value of a field, if it has one. [`Fields`] has an example.
    #[must_use]
    #[inline]
    pub fn get(&self, field: usize) -> Option<&str> {
        let (start, end) = (*self.spans.get(field)?)?;
        self.text.get(start as usize..end as usize).filter(|value| !value.is_empty())
    }

    /// How much memory its values take.
    pub(crate) const fn bytes(&self) -> usize {
        self.text.capacity()
    }

    /// Forgets its values.
    pub(crate) fn forget(&mut self) {
        self.text.clear();
        self.spans.clear();
    }

    /// Gives back memory that a longer request needed before.
    pub(crate) fn shrink(&mut self, keep: usize) {
        if self.text.capacity() > keep.max(self.text.len().saturating_mul(2)) {
            self.text.shrink_to(keep);
        }
    }

    /// When it came. [`Fields`] has an example.
    #[must_use]
    pub const fn at_unix_ms(&self) -> u64 {
        self.at_unix_ms
    }

    /// Says when it came.
    pub const fn set_at_unix_ms(&mut self, at_unix_ms: u64) {
        self.at_unix_ms = at_unix_ms;
    }

    /// Where it came from: see [`Call::origin`](crate::Call::origin).
    #[must_use]
    pub const fn origin(&self) -> Option<u64> {
        self.origin
    }

    /// Says where it came from.
    pub const fn set_origin(&mut self, origin: Option<u64>) {
        self.origin = origin;
    }
}
