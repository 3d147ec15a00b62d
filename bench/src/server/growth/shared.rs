//! A server that shares its limits while it is loaded: with nobody, with its region (replays), and
//! with other regions too (publishing and importing), which are asked about the same subjects.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tidegate_lab::{MariaDbServer, RedisServer};
use tokio::task::JoinSet;

use super::super::contestants::{KEY, Running, item, subject};
use super::super::load::{Loop, Offer};
use super::super::packed::Packed;
use super::super::process::{Process, free_address};
use super::super::wire::{Post, Protocol};
use super::super::{Kind, Scene};
use super::pauses::{Contender, TURNS_FULL_S, in_turns};
use super::watch::Watch;
use super::{MEASURED_S, Size, measure, migrate, start};
use crate::Failure;
use crate::figures::{Figures, ratio};

/// Few enough that each is asked about dozens of times in a second, and a limit that this comes
/// near: the less room there is, the more often a region publishes.
const SUBJECTS: usize = 2_000;
const LIMIT: u64 = 1_000;
/// The room that is left before anything is measured, beside what will be used meanwhile: so much
/// that nobody is denied on a machine that has become quicker, and so little that two regions
/// publish of every subject (when half of their share of the room is used).
const ROOM: f64 = 2.5;
/// What each has used in another region before: a region begins to publish at a fortieth of the
/// limit, and who knows of others publishes otherwise than one that is alone.
const ELSEWHERE_COST: f64 = 30.0;
/// Requests that the other region has in a second, and that each has where there are more.
const ELSEWHERE: f64 = 2_000.0;
const ELSEWHERE_EACH: f64 = 300.0;
/// Connections to another region: enough for these.
const ELSEWHERE_OPEN: usize = 8;
/// How long another region is asked before it is looked whether that is to end.
const ELSEWHERE_S: f64 = 1.0;
/// How long all are loaded before anything is measured.
const WARM_S: f64 = 4.0;
/// How many regions there are.
const REGIONS: [usize; 4] = [1, 2, 5, 10];
/// What a request may cost beside one of a server that is alone: the aim of a comparison in which
/// subjects are so busy that there is something to tell all the time.
const ABOVE_ALONE: f64 = 1.1;
/// What a server counts that shares with its region, and what more with others.
const REPLAYED: &str = "tidegate_region_replayed_total";
const PUBLISHED: &str = "tidegate_globe_published_total";
const IMPORTED: &str = "tidegate_globe_imported_total";

pub(super) async fn shared(scene: &Scene) -> Result<Vec<Size>, Failure> {
    // Declared before the servers: they end last.
    let (redis, here) = (RedisServer::start()?, RedisServer::start()?);
    let database = MariaDbServer::start()?;
    migrate(scene, &database.url())?;
    let (in_region, in_globe) = (free_address()?, free_address()?);
    let region = ["--redis", &redis.url(), "--admin-listen", &in_region.to_string()];
    let globe = globe(&here, &database, in_globe.to_string());
    let globe: Vec<&str> = globe.iter().map(String::as_str).collect();
    let all = [
        Contender::start(scene, "alone", &[], asking).await?,
        Contender::start(scene, "Redis", &region, asking).await?,
        Contender::start(scene, "Redis and MariaDB", &globe, asking).await?,
    ];
    let elsewhere = Elsewhere::begin(scene, &database, (1, ELSEWHERE)).await?;
    for one in &all {
        warm(scene, &one.offer, (1, TURNS_FULL_S)).await?;
    }
    let region = Watch::begin(in_region, &[REPLAYED])?;
    let globe = Watch::begin(in_globe, &[REPLAYED, PUBLISHED, IMPORTED])?;
    let sizes = in_turns(scene, &all).await?;
    region.end(scene)?;
    globe.end(scene)?;
    elsewhere.end().await?;
    Ok(sizes)
}

pub(super) fn add_aim(name: &str, sizes: &[Size], figures: &mut Figures) {
    let [alone, .., globe] = sizes else { return };
    let cost = ratio(globe.cpu_us, alone.cpu_us);
    let target = format!("aim CPU with {}, of {} <= {ABOVE_ALONE}x", globe.name, alone.name);
    figures.target(name, target, format!("{cost:.2}x"), cost > 0.0 && cost <= ABOVE_ALONE);
}

/// As many regions, of which one is measured.
pub(super) async fn regions(scene: &Scene) -> Result<Vec<Size>, Failure> {
    let mut sizes = Vec::new();
    for count in REGIONS {
        sizes.push(among(scene, count).await?);
    }
    Ok(sizes)
}

async fn among(scene: &Scene, regions: usize) -> Result<Size, Failure> {
    let (redis, database) = (RedisServer::start()?, MariaDbServer::start()?);
    migrate(scene, &database.url())?;
    let admin = free_address()?;
    let args = globe(&redis, &database, admin.to_string());
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let (process, running) = start(scene, &args).await?;
    let others = regions.saturating_sub(1);
    let elsewhere = Elsewhere::begin(scene, &database, (others, ELSEWHERE_EACH)).await?;
    let offer = asking(&running)?;
    warm(scene, &offer, (others, 1.5 * MEASURED_S)).await?;
    // A region that is alone tells nobody what nobody needs to know.
    let counts: &[&str] = if others > 0 { &[REPLAYED, PUBLISHED, IMPORTED] } else { &[REPLAYED] };
    let at_work = Watch::begin(admin, counts)?;
    let size = measure(scene, &process, &offer, regions.to_string()).await?;
    at_work.end(scene)?;
    elsewhere.end().await?;
    Ok(size)
}

/// What the measured one of several regions is told.
fn globe(redis: &RedisServer, database: &MariaDbServer, admin: String) -> [String; 8] {
    let [redis_is, globe_is, region_is, admin_is] =
        ["--redis", "--globe", "--region", "--admin-listen"].map(str::to_owned);
    let (redis, database, here) = (redis.url(), database.url(), "here".to_owned());
    [redis_is, redis, globe_is, database, region_is, here, admin_is, admin]
}

/// Loads it, and then uses up what would be left of the limits after so many seconds of full load,
/// with so many other regions.
async fn warm(
    scene: &Scene,
    offer: &Offer,
    (others, seconds): (usize, f64),
) -> Result<(), Failure> {
    let taken = offer.run(Loop::Closed(scene.lasting(WARM_S))).await?.all_good("warm")?;
    let each = 1.0 / SUBJECTS as f64;
    let used = taken.answered as f64 * each + others as f64 * ELSEWHERE_COST;
    let room = ROOM * taken.per_second() * seconds * each;
    use_up(offer, LIMIT as f64 - used - room).await
}

/// Uses so much of the limit of each.
async fn use_up(offer: &Offer, cost: f64) -> Result<(), Failure> {
    if cost < 1.0 {
        return Ok(());
    }
    let offer = Offer { script: asking_for(cost)?, connections: 1, ..offer.clone() };
    offer.run(Loop::Count(u64::try_from(SUBJECTS)?)).await?.all_good("cost").map(drop)
}

/// Other regions, which are asked until they are to end.
struct Elsewhere {
    tasks: JoinSet<Result<(), Failure>>,
    is_to_end: Arc<AtomicBool>,
    // Declared before what they stand on: they end first.
    _processes: Vec<Process>,
    _stores: Vec<RedisServer>,
}

impl Elsewhere {
    /// So many, each asked so often in a second.
    async fn begin(
        scene: &Scene,
        database: &MariaDbServer,
        (count, rate): (usize, f64),
    ) -> Result<Self, Failure> {
        let (mut tasks, is_to_end) = (JoinSet::new(), Arc::new(AtomicBool::new(false)));
        let (mut processes, mut stores) = (Vec::new(), Vec::new());
        for number in 0..count {
            let (redis, name) = (RedisServer::start()?, format!("there{number}"));
            let (url, globe) = (redis.url(), database.url());
            let args = ["--redis", &url, "--globe", &globe, "--region", &name];
            let (process, running) = start(scene, &args).await?;
            let offer = Offer { connections: ELSEWHERE_OPEN, ..asking(&running)? };
            use_up(&offer, ELSEWHERE_COST).await?;
            let (is_to_end, lasting) = (Arc::clone(&is_to_end), scene.lasting(ELSEWHERE_S));
            tasks.spawn(async move {
                // ORDER: relaxed, here and where it is set. One that misses it sees it next time.
                while !is_to_end.load(Ordering::Relaxed) {
                    let asked = offer.run(Loop::Open(rate, lasting)).await?;
                    asked.all_good("another region")?;
                }
                Ok(())
            });
            processes.push(process);
            stores.push(redis);
        }
        Ok(Self { tasks, is_to_end, _processes: processes, _stores: stores })
    }

    /// An error if anything went wrong there.
    async fn end(mut self) -> Result<(), Failure> {
        self.is_to_end.store(true, Ordering::Relaxed);
        while let Some(ended) = self.tasks.join_next().await {
            ended??;
        }
        Ok(())
    }
}

fn asking(running: &Running) -> Result<Offer, Failure> {
    let offer = running.offer(Kind::Limit, Protocol::Http1, 1)?;
    Ok(Offer { script: asking_for(1.0)?, ..offer })
}

/// One request about each, of this cost; without saying so if it is 1, as it is usual.
fn asking_for(cost: f64) -> Result<Arc<Packed>, Failure> {
    Packed::of((0..SUBJECTS).map(|number| {
        let mut body = item(&subject(number), LIMIT);
        if cost > 1.0 {
            body = body.replace('}', &format!(",\"cost\":{cost:.0}}}"));
        }
        Post { path: "/v2/ratelimit.limit", key: KEY, body: &body }.write(Protocol::Http1)
    }))
}
