//! How many regions there are, and how many nodes each of them has.

use std::fmt;

use crate::chance::Chance;

/// The most regions of a world that is drawn.
const REGIONS_MAX: u64 = 10;
/// The most nodes that one of its regions has.
const NODES_MAX: u64 = 6;

/// The nodes of each region. Nodes are numbered as they are dealt: one to each region in turn, for
/// as long as it has room.
///
/// ```
/// let shape = tidegate_sim::Shape::parse("3,1").unwrap();
/// assert_eq!((shape.regions(), shape.nodes()), (2, 4));
/// assert_eq!(shape.homes(), [0, 1, 0, 0]);
/// assert_eq!(shape.to_string(), "3,1");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape(Vec<usize>);

impl Shape {
    /// So many nodes, dealt to so many regions in turn. If there are fewer nodes, the last regions
    /// have none.
    #[must_use]
    pub fn dealt(regions: usize, nodes: usize) -> Self {
        let (regions, nodes) = (regions.max(1), nodes.max(1));
        let of = |home| nodes / regions + usize::from(home < nodes % regions);
        Self((0..regions).map(of).collect())
    }

    /// Two regions or more, each of a size of its own.
    pub(crate) fn drawn(chance: &mut Chance) -> Self {
        let regions = chance.between(2, REGIONS_MAX);
        let size = |_| usize::try_from(chance.between(1, NODES_MAX)).unwrap_or(1);
        Self((0..regions).map(size).collect())
    }

    /// Reads what [`Display`](fmt::Display) writes.
    #[must_use]
    pub fn parse(list: &str) -> Option<Self> {
        let sizes: Option<Vec<usize>> = list.split(',').map(|size| size.parse().ok()).collect();
        sizes.map(Self).filter(|shape| shape.nodes() > 0)
    }

    /// How many regions there are.
    #[must_use]
    pub const fn regions(&self) -> usize {
        self.0.len()
    }

    /// How many nodes all of them have together.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.0.iter().sum()
    }

    /// The region of each node.
    #[must_use]
    pub fn homes(&self) -> Vec<usize> {
        let rounds = self.0.iter().max().copied().unwrap_or(0);
        let sizes = || self.0.iter().enumerate();
        let round = |nth| sizes().filter(move |(_, size)| **size > nth).map(|(home, _)| home);
        (0..rounds).flat_map(round).collect()
    }

    /// Shapes that have a region or a node less, or all regions as small as the smallest.
    pub(crate) fn smaller(&self) -> Vec<Self> {
        let (regions, nodes) = (self.regions(), self.nodes());
        let mut all: Vec<Self> = (2..regions).map(|fewer| Self::dealt(fewer, fewer)).collect();
        all.extend((2..regions).map(|fewer| Self(self.0.iter().take(fewer).copied().collect())));
        all.push(Self::dealt(regions, regions));
        all.push(Self::dealt(regions, nodes));
        all.extend((1..nodes).map(|fewer| Self::dealt(regions, fewer)));
        for home in 0..regions {
            let less = |(at, size): (usize, &usize)| size - usize::from(at == home && *size > 1);
            all.push(Self(self.0.iter().enumerate().map(less).collect()));
        }
        all.retain(|shape| shape != self && shape.nodes() <= nodes);
        all
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes: Vec<String> = self.0.iter().map(usize::to_string).collect();
        f.write_str(&sizes.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::Shape;

    /// Known seeds keep their nodes where they were.
    #[test]
    fn nodes_that_are_dealt_in_turn_belong_to_the_region_of_their_number() {
        for regions in 1..6 {
            for nodes in 1..20 {
                let shape = Shape::dealt(regions, nodes);
                let homes: Vec<usize> = (0..nodes).map(|node| node % regions).collect();
                assert_eq!((shape.homes(), shape.nodes()), (homes, nodes));
            }
        }
    }

    #[test]
    fn what_is_smaller_has_no_more_of_anything() {
        let shape = Shape::parse("1,6,2,4").unwrap();
        for smaller in shape.smaller() {
            assert!(smaller.nodes() <= shape.nodes() && smaller.regions() <= shape.regions());
            assert_ne!(smaller, shape);
        }
        assert!(Shape::dealt(1, 1).smaller().is_empty());
    }

    #[test]
    fn a_shape_without_nodes_is_none() {
        for text in ["", "0", "0,0", "1,,2", "x", "-1"] {
            assert_eq!(Shape::parse(text), None, "{text:?}");
        }
    }
}
