//! Things that are known by their number.

/// A list whose numbers are given out by itself.
#[derive(Clone, Debug)]
pub(crate) struct Dense<T>(Vec<T>);

impl<T> Default for Dense<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Dense<T> {
    /// Adds a thing, and says its number.
    pub(crate) fn add(&mut self, thing: T) -> usize {
        self.0.push(thing);
        self.0.len() - 1
    }

    pub(crate) const fn len(&self) -> usize {
        self.0.len()
    }

    #[expect(clippy::indexing_slicing, reason = "numbers come from `add`, and nothing is removed")]
    pub(crate) fn at(&self, number: usize) -> &T {
        &self.0[number]
    }

    #[expect(clippy::indexing_slicing, reason = "numbers come from `add`, and nothing is removed")]
    pub(crate) fn at_mut(&mut self, number: usize) -> &mut T {
        &mut self.0[number]
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, T> {
        self.0.iter()
    }
}

impl<T> FromIterator<T> for Dense<T> {
    fn from_iter<I: IntoIterator<Item = T>>(all: I) -> Self {
        Self(all.into_iter().collect())
    }
}
