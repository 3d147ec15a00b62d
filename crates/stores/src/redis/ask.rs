//! Asks: how they become a command, and an answer grants.
//!
//! Promises: an ask is one execution, and what the model answers is what comes back.
//! Refuses: what the script could not decide exactly, or not in the time that a server may be kept
//! busy. That is far beyond what a process asks.
//! Fails: as a whole. An answer that is not understood to its end is none.

use std::collections::BTreeSet;

use redis::{Cmd, ServerError, Value};
use tidegate_convergence::{
    ANSWER_LIFE_MS, Ask, AskCell, AskReply, Grant, Reply, SUM_MAX, Token, Unit,
};

use super::script::{
    Code, Common, Held, Script, TOTAL_MAX, cells, field, hex, is_exact, number, push, read_token,
};

/// The longest window with which the script counts exactly; twice what a subject may have.
const WINDOW_MAX_MS: u64 = (1 << 32) - 1;

// A head within this leaves room for a cost in a double.
const _: () = assert!(SUM_MAX < TOTAL_MAX / 2);

/// What one execution of the script answered.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Answered {
    pub(super) token: Token,
    pub(super) asked: Result<AskReply, ServerError>,
}

/// Whether the script decides what the model would.
pub(super) fn is_sound(ask: &Ask) -> bool {
    let cells = ask.cells.len();
    let cell_is_sound =
        |cell: &AskCell| is_exact(&cell.record) && cell.record.window_ms <= WINDOW_MAX_MS;
    let mut wants = ask.units.iter().flat_map(|unit| &unit.wants);
    let subjects: BTreeSet<_> = ask.cells.iter().map(|cell| cell.record.subject).collect();
    ask.operation <= TOTAL_MAX
        && ask.is_sound()
        && subjects.len() == cells
        && ask.cells.iter().all(cell_is_sound)
        && ask.units.iter().all(|unit| !unit.wants.is_empty())
        && wants.all(|want| want.cell < cells && want.cost <= TOTAL_MAX && want.head <= SUM_MAX)
}

impl Script {
    /// The command for an ask that [is sound](is_sound).
    pub(super) fn ask(&self, common: &Common, ask: &Ask) -> Cmd {
        let start = self.start(common.tag);
        let mut keys = vec![format!("{start}token")];
        for AskCell { record, .. } in &ask.cells {
            let [current, previous] = cells(&start, record);
            let answer = format!("{current}:{}", hex(&field(record)));
            keys.extend([current, previous, answer]);
        }
        let mut command = self.run_on(Code::Ask, &keys);
        command.arg(&common.proposal.0.to_be_bytes()).arg(common.token_life_ms);
        command.arg(&ask.token.0.to_be_bytes()).arg(ask.operation).arg(ANSWER_LIFE_MS);
        for cell in &ask.cells {
            push(&mut command, &cell.record);
            // No sum counts for more, so these need not either.
            for known in [cell.known, cell.known_previous, cell.foreign_previous] {
                command.arg(known.min(SUM_MAX));
            }
            let window_ms = cell.record.window_ms.max(1);
            command.arg(cell.rest_ms.min(window_ms)).arg(window_ms);
        }
        for unit in &ask.units {
            command.arg(unit.count).arg(unit.wants.len());
            for want in &unit.wants {
                command.arg(want.cell.saturating_add(1)).arg(want.cost).arg(want.head);
            }
        }
        command
    }
}

impl Answered {
    /// Reads the answer to the execution of that ask; `None` if it is not one.
    pub(super) fn read(value: &Value, ask: &Ask) -> Option<Self> {
        let Value::Array(items) = value else { return None };
        let (token, mut rest) = items.split_first()?;
        let token = read_token(token)?;
        if let [Value::ServerError(why)] = rest {
            return Some(Self { token, asked: Err(why.clone()) });
        }
        let cells = ask.cells.iter().map(|cell| read_cell(&mut rest, cell));
        let cells = cells.collect::<Option<_>>()?;
        if rest.len() != ask.units.len() {
            return None;
        }
        let grants = rest.iter().zip(&ask.units).map(|(value, unit)| read_grant(value, unit));
        Some(Self { token, asked: Ok(AskReply { cells, grants: grants.collect::<Option<_>>()? }) })
    }
}

/// Takes one cell off the front.
fn read_cell(values: &mut &[Value], cell: &AskCell) -> Option<Reply> {
    let mut reply = Held::read(values)?.reply(&cell.record);
    let (granted, others) = values.split_first()?;
    *values = others;
    reply.current.recorded = reply.current.recorded.saturating_add(number(granted)?);
    Some(reply)
}

fn read_grant(value: &Value, unit: &Unit) -> Option<Grant> {
    match value {
        Value::Int(-1) => Some(Grant::Conflict),
        Value::Int(-2) => Some(Grant::Stranger),
        Value::Int(times) => {
            let times = u32::try_from(*times).ok().filter(|times| *times <= unit.count);
            times.map(Grant::Granted)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
