//! Since when everything that was admitted is recorded, once everything is mended.

use crate::world::World;

impl World {
    /// Looks after each event, until the audit begins. A loss that is noticed late makes it unwhole
    /// again, so that the last moment counts.
    pub(crate) fn watch_whole(&mut self) {
        if !self.healed || self.report.healed_ms > 0 {
            return;
        }
        let unrecorded = self.nodes.iter().any(|node| {
            node.process.as_ref().is_none_or(|process| {
                process.draining || !process.region.is_clean() || !process.claims.is_empty()
            })
        });
        if unrecorded {
            // Everything was mended when the traffic ended.
            let since_us = self.now_us.saturating_sub(self.options.safety_ms * 1_000);
            self.report.whole_ms = since_us.div_ceil(1_000);
        }
    }
}
