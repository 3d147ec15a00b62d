//! What we set out to reach, computed from the minima.

use super::memory::Filled;
use super::rounds::Measured;
use crate::report::Line;

/// Most accounted bytes of a subject. The text of the key may come on top, but the table keeps
/// none, so nothing is subtracted.
const ACCOUNTED_MAX: f64 = 320.0;

/// One ratio to stay below.
struct Ratio {
    workloads: &'static [&'static str],
    against: &'static str,
    at_most: f64,
    /// Something to aim at, not something promised.
    aim: bool,
}

const RATIOS: [Ratio; 4] = [
    Ratio { workloads: &["uniform", "zipf"], against: "governor-string", at_most: 0.5, aim: false },
    Ratio { workloads: &["hot"], against: "governor-string", at_most: 0.8, aim: false },
    Ratio {
        workloads: &["hot", "uniform", "zipf"],
        against: "governor-u128",
        at_most: 1.2,
        aim: true,
    },
    Ratio { workloads: &["hot", "uniform", "zipf"], against: "bare", at_most: 2.5, aim: false },
];

/// All targets whose contestants were measured.
pub(crate) fn of_speed(measured: &[Measured]) -> Vec<Line> {
    let mut lines = Vec::new();
    for ratio in RATIOS {
        for workload in ratio.workloads {
            for threads in [1, 2] {
                let case = format!("{workload}/{threads}t");
                let ours = min(measured, &case, "tidegate");
                let (Some(ours), Some(theirs)) = (ours, min(measured, &case, ratio.against)) else {
                    continue;
                };
                let aim = if ratio.aim { "aim " } else { "" };
                let target = format!("{aim}<= {}x {}", ratio.at_most, ratio.against);
                let reached = ours / theirs;
                lines.push(line(case, target, format!("{reached:.2}x"), reached <= ratio.at_most));
            }
        }
    }
    for threads in [1, 2] {
        let case = format!("denied/{threads}t");
        let denied = min(measured, &case, "tidegate");
        let hot = min(measured, &format!("hot/{threads}t"), "tidegate");
        if let (Some(denied), Some(hot)) = (denied, hot) {
            let measured = format!("{:.2}x", denied / hot);
            lines.push(line(case, "< 1x hot".to_owned(), measured, denied < hot));
        }
    }
    lines
}

/// The target of memory.
pub(crate) fn of_memory(case: &str, ours: &Filled) -> Option<Line> {
    let accounted = ours.accounted()?;
    let target = format!("<= {ACCOUNTED_MAX} accounted bytes/subject");
    Some(line(case.to_owned(), target, format!("{accounted:.1}"), accounted <= ACCOUNTED_MAX))
}

fn min(measured: &[Measured], case: &str, contestant: &str) -> Option<f64> {
    let found = measured.iter().find(|one| one.case == case && one.contestant == contestant)?;
    Some(found.min())
}

fn line(case: String, target: String, measured: String, met: bool) -> Line {
    Line::Target { bench: "decide", case, target, measured, met }
}
