use tidegate_convergence::{ASK_WANTS_MAX, CellReply, Component, Record, Want};
use tidegate_limiter::Digest;

use super::*;

fn ask(cells: u8, units: Vec<Unit>) -> Ask {
    let cell = |number| {
        let subject = Digest::from_bytes([number; 16]);
        let component = Component { incarnation: 1, life: 0 };
        let (window_ms, sequence, total, previous_total) = (60_000, 7, 5, 0);
        let record = Record { subject, window_ms, sequence, component, total, previous_total };
        AskCell { record, known: 0, known_previous: 0, foreign_previous: 0, rest_ms: 0 }
    };
    Ask { operation: 1, token: Token(7), cells: (0..cells).map(cell).collect(), units }
}

fn unit(cell: usize, cost: u64, head: u64) -> Unit {
    Unit { wants: vec![Want { cell, cost, head }], count: 3 }
}

#[test]
fn an_answer_is_read_whole_or_not_at_all() {
    let int = Value::Int;
    let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
    let ask = ask(2, [0, 1, 1].map(|cell| unit(cell, 1, 9)).to_vec());
    let token = Value::BulkString(7_u128.to_be_bytes().to_vec());
    let first = [text("12"), text("3"), int(2), Value::Nil, int(4)];
    let second = [Value::Nil, text("8"), text("0"), int(1), int(0)];
    let grants = [int(3), int(-1), int(-2)];
    let whole = [&[token.clone()][..], &first, &second, &grants].concat();
    let read = |items: &[Value]| Answered::read(&Value::Array(items.to_vec()), &ask);
    let answered = read(&whole).unwrap();
    let reply = answered.asked.unwrap();
    assert_eq!(answered.token, Token(7));
    assert_eq!(reply.grants, [Grant::Granted(3), Grant::Conflict, Grant::Stranger]);
    let current = CellReply { sum: 12, recorded: 9, had: 3, components: 2 };
    assert_eq!(reply.cells[0], Reply { current, previous: CellReply::default() });
    assert_eq!(reply.cells[1].previous, CellReply { sum: 8, recorded: 0, had: 0, components: 1 });
    for end in 0..whole.len() {
        assert_eq!(read(&whole[..end]), None, "{end}");
    }
    let wrong = [(0, int(7)), (1, int(-1)), (5, Value::Nil), (11, int(4)), (11, int(-3))];
    for (at, wrong) in wrong.into_iter().chain([(11, text("3"))]) {
        let mut items = whole.clone();
        items[at] = wrong;
        assert_eq!(read(&items), None, "{at}");
    }
    assert_eq!(read(&[&whole[..], &[int(0)]].concat()), None);
    let error = redis::parse_redis_value(b"-WRONGTYPE Operation against a key\r\n").unwrap();
    let failed = read(&[token.clone(), error.clone()]).unwrap();
    assert!(failed.token == Token(7) && failed.asked.is_err());
    assert_eq!(read(&[&[token][..], &first, &[error]].concat()), None, "not in the middle");
}

#[test]
fn what_would_not_be_decided_as_in_the_model_is_refused() {
    let (cost, head) = (TOTAL_MAX, SUM_MAX);
    let sound = ask(2, vec![unit(1, cost, head)]);
    assert!(is_sound(&sound));
    let with = |change: &dyn Fn(&mut Ask)| {
        let mut ask = sound.clone();
        change(&mut ask);
        ask
    };
    let changes: [&dyn Fn(&mut Ask); 9] = [
        &|ask| ask.operation = TOTAL_MAX + 1,
        &|ask| ask.cells[1].record.total = TOTAL_MAX + 1,
        &|ask| ask.cells[1].record.previous_total = TOTAL_MAX + 1,
        &|ask| ask.cells[1].record.window_ms = WINDOW_MAX_MS + 1,
        &|ask| ask.cells[1].record.subject = ask.cells[0].record.subject,
        &|ask| ask.units.push(unit(2, 1, 1)),
        &|ask| ask.units.push(unit(0, TOTAL_MAX + 1, 1)),
        &|ask| ask.units.push(unit(0, 1, SUM_MAX + 1)),
        &|ask| ask.units.push(Unit { wants: vec![], count: 1 }),
    ];
    for (turn, change) in changes.into_iter().enumerate() {
        assert!(!is_sound(&with(change)), "{turn}");
    }
    let wants = |count| with(&|ask| ask.units = vec![unit(0, 1, 1); count]);
    assert!(is_sound(&wants(ASK_WANTS_MAX)) && !is_sound(&wants(ASK_WANTS_MAX + 1)));
    assert!(is_sound(&ask(255, vec![])) && is_sound(&ask(0, vec![])));
}
