//! How much more than the limit several processes admit under each rule, and how often Redis is
//! asked.

use std::time::Duration;

use super::arrivals::{BEGIN_MS, LIMITS, Pattern, plan};
use super::fleet::{Cell, Fleet, Ran};
use super::node::Rule;
use crate::Failure;
use crate::figures::{Figures, quantile, ratio, three_digits};
use crate::region::time::Shifted;
use crate::region::{Scene, Work};

/// Processes that share the limits.
const NODES: [usize; 4] = [1, 3, 5, 9];
/// How many there are in a smoke run.
const SMOKE_NODES: usize = 3;
/// The time that processes have to hear of each other before the first request.
const ACQUAINTANCE_MS: u64 = 1_200;
/// What the cells of bounded consistency come to while Redis answers: the worst...
const WORST: f64 = 1.1;
/// ...and 99 of 100.
const P99: f64 = 1.02;
/// The part of the cells in which an answer of Redis may have come too late.
const LATE_PART: f64 = 0.01;

/// What one rule came to, over all sizes of the fleet.
#[derive(Default)]
struct Total {
    clean: Vec<f64>,
    late: Vec<f64>,
    operations: f64,
    requests: f64,
}

impl Total {
    fn operations_each(&self) -> f64 {
        ratio(self.operations, self.requests)
    }
}

pub(super) async fn run(
    scene: &Scene,
    figures: &mut Figures,
    pattern: Pattern,
) -> Result<(), Failure> {
    let mut totals: [Total; 3] = Default::default();
    for nodes in NODES.into_iter().filter(|nodes| !scene.smoke || *nodes == SMOKE_NODES) {
        for (rule, total) in Rule::ALL.into_iter().zip(&mut totals) {
            one(scene, figures, (pattern, nodes, rule), total).await?;
        }
    }
    for (rule, total) in Rule::ALL.into_iter().zip(&mut totals) {
        let all = total.clean.len() + total.late.len();
        let unit = "% of the cells with an answer that came too late";
        let part = ratio(total.late.len() as f64, all as f64);
        figures.add(pattern.name(), rule.name(), 100.0 * part, unit);
        figures.add(pattern.name(), rule.name(), total.operations_each(), "operations/request");
        total.clean.sort_by(f64::total_cmp);
        figures.spread(pattern.name(), rule.name(), &total.clean);
        if !total.late.is_empty() {
            total.late.sort_by(f64::total_cmp);
            let case = format!("{}/too late", pattern.name());
            figures.spread(&case, rule.name(), &total.late);
        }
    }
    let [bounded, _, reference] = &totals;
    judge(figures, pattern, bounded, reference);
    Ok(())
}

fn judge(figures: &mut Figures, pattern: Pattern, bounded: &Total, reference: &Total) {
    let (case, cells) = (pattern.name(), bounded.clean.len());
    let worst = quantile(&bounded.clean, 1.0);
    let target = format!("bounded: worst of {cells} cells <= {WORST}");
    figures.target(case, target, three_digits(worst).to_string(), worst <= WORST);
    let p99 = quantile(&bounded.clean, 0.99);
    let target = format!("bounded: p99 of {cells} cells <= {P99}");
    figures.target(case, target, three_digits(p99).to_string(), p99 <= P99);
    let part = ratio(bounded.late.len() as f64, (cells + bounded.late.len()) as f64);
    let target = format!("bounded: <= {} % of the cells with a late answer", LATE_PART * 100.0);
    figures.target(case, target, format!("{:.2} %", part * 100.0), part <= LATE_PART);
    let (ours, theirs) = (bounded.operations_each(), reference.operations_each());
    let target = format!("bounded: <= reference {theirs:.3} operations/request");
    figures.target(case, target, format!("{ours:.3}"), ours <= theirs);
}

async fn one(
    scene: &Scene,
    figures: &mut Figures,
    (pattern, nodes, rule): (Pattern, usize, Rule),
    total: &mut Total,
) -> Result<(), Failure> {
    eprintln!("{}: {nodes} processes, {}", pattern.name(), rule.name());
    let server = scene.lab.start()?;
    let plan = plan(scene, pattern, nodes);
    let clock = Shifted::at(Duration::from_millis(BEGIN_MS - ACQUAINTANCE_MS));
    let fleet = Fleet::start(&server, clock, (rule, nodes)).await?;
    let (before, said) = (Work::of(&server)?, fleet.operations());
    let ran = fleet.run(plan).await?;
    let work = Work::since(&server, &before)?;
    let operations = match rule {
        Rule::Reference => ["incrby", "get", "expire"].map(|name| work.calls(name)).iter().sum(),
        Rule::Bounded | Rule::Fast => (fleet.operations() - said) as f64,
    };
    fleet.end().await;
    let case = format!("{}/{nodes}n", pattern.name());
    let requests = ran.requests as f64;
    let mut add = |value: f64, unit: &str| figures.add(&case, rule.name(), value, unit);
    add(ratio(operations, requests), "operations/request");
    add(ratio(work.cpu_us, requests), "redis cpu us/request");
    add(ran.late_ms, "arrivals late ms p99");
    add(ratio(ran.waits.len() as f64, requests), "waited/request");
    let mut waits: Vec<f64> = ran.waits.iter().map(|(_, ms)| *ms).collect();
    waits.sort_by(f64::total_cmp);
    let (unasked, admitted) = ran.cells.iter().fold((0, 0), |(unasked, admitted), cell| {
        (unasked + cell.unasked, admitted + cell.admitted)
    });
    if rule != Rule::Reference {
        add(ratio(unasked as f64, admitted as f64), "admitted unasked/admitted");
    }
    add(quantile(&waits, 0.5), "ms waited p50");
    add(quantile(&waits, 0.99), "ms waited p99");
    total.operations += operations;
    total.requests += requests;
    sort(figures, &case, rule, &ran, total);
    Ok(())
}

/// Tells the cells of each limit, those apart in which an answer came too late.
fn sort(figures: &mut Figures, case: &str, rule: Rule, ran: &Ran, total: &mut Total) {
    for limit in LIMITS {
        let of_limit = ran.cells.iter().filter(|cell| cell.limit == limit);
        let (clean, late): (Vec<&Cell>, Vec<&Cell>) = of_limit.partition(|cell| cell.degraded == 0);
        let mut shares: Vec<f64> = clean.into_iter().map(Cell::share).collect();
        shares.sort_by(f64::total_cmp);
        figures.spread(&format!("{case}/{limit}"), rule.name(), &shares);
        total.clean.extend(shares);
        total.late.extend(late.into_iter().map(Cell::share));
    }
}
