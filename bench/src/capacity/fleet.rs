//! Two regions of two processes, with everything that they share.

use std::sync::Arc;

use tidegate::{Limiter, RegionName, mysql, redis};
use tidegate_lab::RedisServer;

use crate::Failure;
use crate::globe::database::Database;
use crate::region::ours::end;
use crate::region::{Scene, time::Shifted};

/// The regions, and how many processes each has.
const NAMES: [&str; 2] = ["eu", "us"];
const PROCESSES: usize = 2;
/// How many regions there are, a Redis each.
pub(super) const REGIONS: usize = NAMES.len();
/// How many processes there are.
pub(super) const ALL: usize = REGIONS * PROCESSES;

/// See the module.
pub(super) struct Fleet {
    pub(super) limiters: Vec<Arc<Limiter>>,
    pub(super) servers: Vec<RedisServer>,
}

impl Fleet {
    pub(super) async fn start(
        scene: &Scene,
        database: &Database,
        clock: Shifted,
    ) -> Result<Self, Failure> {
        let url = database.server.url();
        mysql::store(&url)?.migrate().await?;
        let (mut limiters, mut servers) = (Vec::new(), Vec::new());
        for name in NAMES {
            let server = scene.lab.start()?;
            for _ in 0..PROCESSES {
                let region = redis::store(&server.url())?;
                let builder = Limiter::builder().clock(clock).region(region);
                let builder = builder.globe(RegionName::new(name)?, mysql::store(&url)?);
                limiters.push(Arc::new(builder.build()?));
            }
            servers.push(server);
        }
        Ok(Self { limiters, servers })
    }

    /// Ends the processes, then their servers.
    pub(super) async fn end(self) {
        for limiter in self.limiters {
            end(limiter).await;
        }
    }
}
