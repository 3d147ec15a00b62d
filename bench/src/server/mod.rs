//! What a whole server costs: ours beside the least server of the same stack and beside others, in
//! rounds that take turns. Load and servers share one machine, so that only ratios say something,
//! and those of processor time per request say it most steadily.

mod bars;
pub(crate) mod callgrind;
pub(crate) mod contestants;
mod cores;
pub(crate) mod growth;
pub(crate) mod load;
mod pace;
mod packed;
mod peers;
#[cfg_attr(not(test), expect(dead_code, reason = "the promises draw more kinds of plots"))]
#[path = "../../../crates/sim/src/promises/plot.rs"]
mod plot;
pub(crate) mod process;
mod script;
pub(crate) mod soak;
mod targets;
#[cfg(test)]
mod tests;
pub(crate) mod trivial;
pub(crate) mod wire;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::ValueEnum;
use tokio::signal::unix::{SignalKind, signal};

use crate::Failure;
use crate::args::Head;
use crate::figures::{Figures, quantile, ratio};
use crate::machine::Usage;
use crate::region::time;
use contestants::{Running, Who};
use cores::{Apart, Elsewhere};
use load::{Loop, Offer, Taken};
use targets::Measured;
use wire::Protocol;

/// Connections of a load; all are kept.
pub(crate) const CONNECTIONS: usize = 64;
/// How many subjects are asked about, one after the other.
const SUBJECTS: usize = 10_000;
/// So much that nobody is ever denied who should not be: nobody sends as much in a window.
pub(crate) const LIMIT: u64 = 1_000_000_000;
/// A limit that a subject comes near while servers are compared: each of ten thousand uses a third
/// of it in a window at most, and a region begins to publish at a fortieth. Nobody is denied.
pub(crate) const LIMIT_IN_REACH: u64 = 1_000;
/// The window of all limits: one that regions share.
pub(crate) const WINDOW_MS: u64 = 60_000;
/// Items of a `multiLimit`.
const BATCH: usize = 5;
/// How long one contestant is loaded in one round, before anything is measured, and at half of what
/// it can do. Short rounds, and many: what else the machine does lasts for seconds, and moves what
/// a request takes by a third.
const ROUND_S: f64 = 1.0;
/// In how many turns of those that are compared and tell no stores: what else the machine does then
/// hits all of them alike.
const TURNS: u32 = 4;
const WARM_S: f64 = 1.0;
/// The same of who tells stores what it admitted: the first of that is told after two seconds and
/// published a second later, so that by then all of it is under way.
const TELLING_S: f64 = 4.0;
const HALF_S: f64 = 2.0;
/// How long half load goes on before its latency counts: what full load has left to tell is told
/// and published by then, as by [`TELLING_S`].
const CALM_S: f64 = 4.0;
/// How long nobody is loaded, so that servers that share tell their stores what they still have to
/// tell: twice as long as that takes, and the cores are free for whoever is next.
const SETTLE_S: f64 = 3.0;
/// How long a round takes, at least, which is what it takes with all cases. At full load a subject
/// uses a third of its limit in one: two of them in a window would be more than half, from where on
/// everything costs more, so that figures of few cases were others than those of all.
const ROUND_LEAST_S: f64 = 70.0;
/// Rounds of half load of those whose latency has a target. A pause of milliseconds that hits one
/// of a hundred requests is the whole of a p99: what is felt takes more rounds to tell than what is
/// used.
const HALF_ROUNDS: usize = 11;

/// Arguments of `server`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    head: Head<Case>,
    /// The program `tidegate`.
    #[arg(long)]
    tidegate: PathBuf,
    /// Where other limiters' servers were installed.
    #[arg(long)]
    peers: Option<PathBuf>,
    /// How many rounds.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// How many of those at half load whose latency has a target; 0 for none at half load.
    #[arg(long, default_value_t = HALF_ROUNDS)]
    half_rounds: usize,
    /// Count instructions per request with callgrind instead of time.
    #[arg(long)]
    callgrind: bool,
    /// With `--callgrind`: make what was counted the baseline.
    #[arg(long, requires = "callgrind")]
    update: bool,
}

/// What is asked, over what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Case {
    /// `limit` over HTTP/1.1.
    Limit,
    /// `limit` over HTTP/2.
    #[value(name = "limit-http2")]
    LimitHttp2,
    /// The script in Redis, over RESP.
    #[value(name = "limit-resp")]
    LimitResp,
    /// `multiLimit` of five.
    #[value(name = "multi-limit")]
    MultiLimit,
    /// `limit` for somebody at the limit.
    Denied,
}

impl Case {
    const fn parts(self) -> (Kind, Protocol) {
        match self {
            Self::Limit => (Kind::Limit, Protocol::Http1),
            Self::LimitHttp2 => (Kind::Limit, Protocol::Http2),
            Self::LimitResp => (Kind::Limit, Protocol::Resp),
            Self::MultiLimit => (Kind::Multi, Protocol::Http1),
            Self::Denied => (Kind::Denied, Protocol::Http1),
        }
    }

    /// As it is printed.
    fn name(self) -> String {
        let (kind, protocol) = self.parts();
        format!("{}/{}", kind.name(), protocol.name())
    }

    /// Whether latencies have a target.
    const fn is_felt(self) -> bool {
        matches!(self, Self::Limit | Self::LimitHttp2 | Self::MultiLimit)
    }
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Limit,
    Multi,
    Denied,
}

impl Kind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Limit => "limit",
            Self::Multi => "multiLimit of 5",
            Self::Denied => "denied",
        }
    }
}

/// What servers are started from, and how much of everything there is.
pub(crate) struct Scene {
    pub(crate) tidegate: PathBuf,
    pub(crate) peers: Option<PathBuf>,
    pub(crate) subjects: usize,
    pub(crate) smoke: bool,
}

impl Scene {
    pub(crate) fn new(tidegate: &Path, peers: Option<&Path>, smoke: bool) -> Self {
        let subjects = if smoke { SUBJECTS / 10 } else { SUBJECTS };
        let (tidegate, peers) = (tidegate.to_owned(), peers.map(Path::to_owned));
        Self { tidegate, peers, subjects, smoke }
    }

    pub(crate) fn lasting(&self, seconds: f64) -> Duration {
        Duration::from_secs_f64(if self.smoke { seconds / 20.0 } else { seconds })
    }
}

/// Runs this to its end, or until this process is told to end: then the servers that it has started
/// end, too. The load comes from one thread, and while something is measured it has a core of its
/// own.
pub(crate) fn run<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut told = signal(SignalKind::terminate())?;
        let mut interrupted = signal(SignalKind::interrupt())?;
        tokio::select! {
            done = work => done,
            _ = told.recv() => Err("told to end".into()),
            _ = interrupted.recv() => Err("interrupted".into()),
        }
    })
}

/// Runs the bench.
pub(crate) fn main(args: &Args) -> Result<ExitCode, Failure> {
    let Head { json, smoke, .. } = args.head;
    if args.callgrind {
        let options = crate::decide::callgrind::Options { json, smoke, update: args.update };
        return callgrind::main(&args.tidegate, &options);
    }
    let scene = Scene::new(&args.tidegate, args.peers.as_deref(), smoke);
    let usage = Usage::read();
    let mut figures = Figures::wide("server");
    let rounds = if smoke { [1, 1] } else { [args.rounds.max(1), args.half_rounds] };
    let cases: Vec<Case> = args.head.cases().copied().collect();
    let measured = run(measure(&scene, &cases, rounds))?;
    measured.iter().for_each(|one| one.add(&mut figures));
    targets::add(&measured, &mut figures);
    figures.print(json, smoke, usage)?;
    Ok(ExitCode::SUCCESS)
}

/// All who can be asked any of these, at once; one of them is loaded at a time.
async fn measure(
    scene: &Scene,
    cases: &[Case],
    [rounds, half_rounds]: [usize; 2],
) -> Result<Vec<Measured>, Failure> {
    let speaks = |who: &Who| {
        cases.iter().any(|case| {
            let (kind, protocol) = case.parts();
            who.speaks(kind, protocol)
        })
    };
    let mut all = Vec::new();
    for who in Who::ALL.into_iter().filter(speaks) {
        let _elsewhere = Elsewhere::begin()?;
        all.extend(Running::start(who, scene).await?);
    }
    let mut measured = Vec::new();
    for case in cases {
        let (kind, protocol) = case.parts();
        let asked = all.iter().filter(|running| running.who.speaks(kind, protocol));
        for running in asked {
            measured.push(Contest::new(*case, running, scene)?);
        }
    }
    let mut rested = time::now();
    for round in 0..rounds {
        time::sleep(rested.saturating_duration_since(time::now())).await;
        rested = time::now() + scene.lasting(ROUND_LEAST_S);
        eprintln!("round {} of {rounds}", round + 1);
        let mut told = true;
        for together in measured.chunk_by_mut(Contest::takes_turns_with) {
            if let [first, ..] = together {
                told = first.settle(scene, told).await;
            }
            take_turns(scene, together, round == 0).await?;
        }
    }
    at_half(scene, &mut measured, [rounds.min(half_rounds), half_rounds]).await?;
    Ok(measured.into_iter().map(|contest| contest.measured).collect())
}

/// One round of those who are loaded in turns.
async fn take_turns(
    scene: &Scene,
    together: &mut [Contest<'_>],
    is_first: bool,
) -> Result<(), Failure> {
    let _apart = Apart::begin()?;
    for contest in &*together {
        contest.warm(scene, is_first).await?;
    }
    for _ in 0..TURNS {
        for contest in &mut *together {
            contest.turn(scene.lasting(ROUND_S / f64::from(TURNS))).await?;
        }
    }
    together.iter_mut().for_each(Contest::end_round);
    Ok(())
}

/// All at half of what they can do. In each round, those that are compared follow on each other.
async fn at_half(
    scene: &Scene,
    measured: &mut [Contest<'_>],
    [rounds, most]: [usize; 2],
) -> Result<(), Failure> {
    for round in 0..most {
        eprintln!("at half of that, round {} of {most}", round + 1);
        let mut told = true;
        for contest in measured.iter_mut().filter(|it| round < rounds || it.is_felt()) {
            told = contest.settle(scene, told).await;
            contest.half(scene).await?;
        }
    }
    Ok(())
}

/// What a contestant came to in the turns of a round.
#[derive(Clone, Copy, Debug, Default)]
struct Turns {
    answered: f64,
    seconds: f64,
    /// Processor time, of the server and of what it stands on.
    own_us: f64,
    stores_us: f64,
}

/// One contestant in one case.
struct Contest<'a> {
    case: Case,
    running: &'a Running,
    offer: Offer,
    turns: Turns,
    measured: Measured,
}

impl<'a> Contest<'a> {
    fn new(case: Case, running: &'a Running, scene: &Scene) -> Result<Self, Failure> {
        let (kind, protocol) = case.parts();
        let offer = running.offer(kind, protocol, scene.subjects)?;
        let started_ms = running.started.as_secs_f64() * 1e3;
        let measured = Measured { case, started_ms, ..Measured::new(running.who) };
        Ok(Self { case, running, offer, turns: Turns::default(), measured })
    }

    /// Whether both are loaded in turns. Who tells stores goes on with that while others are
    /// loaded.
    fn takes_turns_with(&self, other: &Self) -> bool {
        let tells = |it: &Self| it.running.who.tells_stores();
        self.case == other.case && !tells(self) && !tells(other)
    }

    /// Whether its latency is compared.
    fn is_felt(&self) -> bool {
        let who = self.running.who;
        self.case.is_felt() && (who == Who::Trivial || who.is_ours())
    }

    /// Whoever `told` stores before goes on with it when it is loaded no more: the next one that
    /// does not do so itself waits for the end of that. Says whether this one tells them.
    async fn settle(&self, scene: &Scene, told: bool) -> bool {
        let tells = self.running.who.tells_stores();
        if told && !tells {
            time::sleep(scene.lasting(SETTLE_S)).await;
        }
        tells
    }

    async fn load(&self, how: Loop) -> Result<Taken, Failure> {
        self.offer.run(how).await?.all_good(self.running.who.name())
    }

    async fn warm(&self, scene: &Scene, is_first: bool) -> Result<(), Failure> {
        let tells = self.running.who.tells_stores();
        if is_first || tells {
            let warm_s = if tells { TELLING_S } else { WARM_S };
            self.load(Loop::Closed(scene.lasting(warm_s))).await?;
        }
        Ok(())
    }

    async fn turn(&mut self, lasting: Duration) -> Result<(), Failure> {
        let connected = self.offer.connect().await?;
        let (own, stores) = self.running.cpu_us();
        let taken = connected.run(Loop::Closed(lasting)).await?;
        let taken = taken.all_good(self.running.who.name())?;
        let (own_after, stores_after) = self.running.cpu_us();
        self.turns.answered += taken.answered as f64;
        self.turns.seconds += taken.seconds;
        self.turns.own_us += own_after - own;
        self.turns.stores_us += stores_after - stores;
        Ok(())
    }

    fn end_round(&mut self) {
        let Turns { answered, seconds, own_us, stores_us } = std::mem::take(&mut self.turns);
        self.measured.per_second.push(ratio(answered, seconds));
        self.measured.own_us.push(ratio(own_us, answered));
        self.measured.stores_us.push(ratio(stores_us, answered));
        self.measured.resident_mib = self.running.resident_mib();
    }

    async fn half(&mut self, scene: &Scene) -> Result<(), Failure> {
        let _apart = Apart::begin()?;
        // The others were loaded meanwhile: whoever shares a region reads all subjects again.
        self.load(Loop::Closed(scene.lasting(WARM_S))).await?;
        let offered = self.measured.rate() / 2.0;
        self.load(Loop::Open(offered, scene.lasting(CALM_S))).await?;
        let taken = self.load(Loop::Open(offered, scene.lasting(HALF_S))).await?;
        let sorted: Vec<f64> = taken.latencies_us.iter().map(|us| f64::from(*us)).collect();
        let latency_us = [0.5, 0.99, 0.999].map(|part| quantile(&sorted, part));
        let [_, p99_us, _] = latency_us;
        eprintln!("{} of {}: p99 {p99_us:.0} us", self.case.name(), self.running.who.name());
        self.measured.offered.push(offered);
        self.measured.latencies_us.push(latency_us);
        Ok(())
    }
}
