//! The scripts of a shard, and that of records: how they become a command, and an answer replies.

use std::fmt::{self, Write};

use redis::{Cmd, ServerError, Value};
use tidegate_convergence::{CellReply, Record, Reply, Shard, Token};

/// The version of the keys: another meaning of what they hold would be another number.
const KEY_VERSION: u8 = 1;
/// A day: much longer than any pause between two calls that identify, so that the token of a shard
/// in use never expires; short enough that an abandoned prefix cleans itself up.
pub(super) const TOKEN_LIFE_MS: u64 = 24 * 60 * 60 * 1_000;
/// The largest total that Lua, whose numbers are doubles, can compare and subtract exactly.
pub(super) const TOTAL_MAX: u64 = (1 << 53) - 1;
/// A century. Redis refuses a time to live that does not fit its clock, and would do so after the
/// write; the longest window has 31 days.
pub(super) const LIFE_MAX_MS: u64 = 100 * 366 * 24 * 60 * 60 * 1_000;

/// How many records one execution takes. The token and the start of an execution cost as much as
/// half a record, so that more would save little; and nobody else is served meanwhile: at 2 to 6 us
/// for a record that is up to 200.
pub(super) const RECORDS_MAX: usize = 32;

/// What a command has beside its records: the script, the token, and what is common.
const HEAD_ARGS: usize = 7;
/// The same in bytes, with a prefix of usual length.
const HEAD_BYTES: usize = 160;
/// What it has of each record: two keys, whose it is, a life and two totals.
const RECORD_ARGS: usize = 6;
/// The same in bytes: keys of about 70, and 50 for the rest.
const RECORD_BYTES: usize = 192;

/// What stands in the braces of a key. A cluster looks at nothing else: it stands for one slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Tag {
    /// The cells of a shard.
    Shard(Shard),
    /// The board.
    Board,
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shard(shard) => write!(f, "{}", shard.0),
            Self::Board => f.write_str("board"),
        }
    }
}

/// What a shard executes. The head of each says what it takes and returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Code {
    Record,
    Ask,
    Present,
}

impl Code {
    const fn text(self) -> &'static str {
        match self {
            Self::Record => include_str!("record.lua"),
            Self::Ask => include_str!("ask.lua"),
            Self::Present => include_str!("present.lua"),
        }
    }

    /// The command that makes a server know the script.
    pub(super) fn load(self) -> Cmd {
        load(self.text())
    }

    /// The name by which a server knows it.
    fn sha1(self) -> String {
        redis::Script::new(self.text()).get_hash().to_owned()
    }
}

/// The command that makes a server know a script.
pub(super) fn load(text: &str) -> Cmd {
    let mut command = redis::cmd("SCRIPT");
    command.arg("LOAD").arg(text);
    command
}

/// The scripts of a shard and the names of their keys.
#[derive(Debug)]
pub(super) struct Script {
    prefix: String,
    record: String,
    ask: String,
    present: String,
}

/// What one execution of the script answered.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Answer {
    pub(super) token: Token,
    /// One for each record, in order.
    pub(super) records: Vec<Result<Held, ServerError>>,
}

/// What the store holds of both cells of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    current: HeldCell,
    previous: HeldCell,
}

/// What the store holds of one cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct HeldCell {
    /// After the record.
    sum: u64,
    /// The component's total before it.
    had: u64,
    /// After it.
    components: u32,
}

/// What all executions of a call have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Common {
    pub(super) tag: Tag,
    pub(super) proposal: Token,
    pub(super) token_life_ms: u64,
    pub(super) renew: bool,
}

impl Script {
    pub(super) fn new(prefix: &str) -> Self {
        let [record, ask, present] = [Code::Record, Code::Ask, Code::Present].map(Code::sha1);
        Self { prefix: prefix.to_owned(), record, ask, present }
    }

    /// The command for up to [`RECORDS_MAX`] records; without any it asks only for the token.
    pub(super) fn run<'a, I>(&self, common: &Common, records: I) -> Cmd
    where
        I: Iterator<Item = &'a Record> + Clone,
    {
        let start = self.start(common.tag);
        let count = records.clone().count();
        let mut command = Cmd::with_capacity(
            HEAD_ARGS.saturating_add(count.saturating_mul(RECORD_ARGS)),
            HEAD_BYTES.saturating_add(count.saturating_mul(RECORD_BYTES)),
        );
        command.arg("EVALSHA").arg(&self.record).arg(count.saturating_mul(2).saturating_add(1));
        command.arg(format!("{start}token"));
        let mut key = String::with_capacity(start.len().saturating_add(RECORD_BYTES));
        for record in records.clone() {
            push_cells(&mut command, (&mut key, &start), record);
        }
        command.arg(&common.proposal.0.to_be_bytes());
        command.arg(common.token_life_ms).arg(u64::from(common.renew));
        for record in records {
            push(&mut command, record);
        }
        command
    }

    /// The beginning of an execution: the script and its keys.
    pub(super) fn run_on(&self, code: Code, keys: &[String]) -> Cmd {
        let sha1 = match code {
            Code::Record => &self.record,
            Code::Ask => &self.ask,
            Code::Present => &self.present,
        };
        let mut command = redis::cmd("EVALSHA");
        command.arg(sha1).arg(keys.len()).arg(keys);
        command
    }

    /// What the keys of a shard or of the board begin with.
    pub(super) fn start(&self, tag: Tag) -> String {
        format!("{}:{KEY_VERSION}:{{{tag}}}:", self.prefix)
    }
}

/// The names of the current and of the previous cell.
pub(super) fn cells(start: &str, record: &Record) -> [String; 2] {
    let digest = hex(record.subject.as_bytes());
    sequences(record).map(|sequence| format!("{start}{digest}:{sequence}"))
}

/// The same as keys of a command. They are written one over the other: thousands in a second.
fn push_cells(command: &mut Cmd, (key, start): (&mut String, &str), record: &Record) {
    key.clear();
    key.push_str(start);
    push_hex(key, record.subject.as_bytes());
    let length = key.len();
    for sequence in sequences(record) {
        key.truncate(length);
        // Writing to a string cannot fail.
        let _ = write!(key, ":{sequence}");
        command.arg(key.as_str());
    }
}

/// Sequence 0 has none before it: this is itself then.
const fn sequences(record: &Record) -> [u64; 2] {
    [record.sequence, record.sequence.saturating_sub(1)]
}

/// The name of the field of a component.
pub(super) fn field(record: &Record) -> [u8; 24] {
    let mut field = [0; 24];
    let incarnation = record.component.incarnation.to_be_bytes().into_iter();
    let name = incarnation.chain(record.component.life.to_be_bytes());
    field.iter_mut().zip(name).for_each(|(to, from)| *to = from);
    field
}

/// What a script is told of a record: whose it is, the life of a cell, and both totals.
pub(super) fn push(command: &mut Cmd, record: &Record) {
    // A life of 0 would delete what was just written.
    let life_ms = record.life_ms().clamp(1, LIFE_MAX_MS);
    // Only reads the cell that is named twice.
    let previous = if record.sequence == 0 { 0 } else { record.previous_total };
    command.arg(&field(record)).arg(life_ms).arg(record.total).arg(previous);
}

impl Answer {
    /// Reads the answer to an execution; `None` if it is not one.
    pub(super) fn read(value: &Value) -> Option<Self> {
        let Value::Array(items) = value else { return None };
        let [token, Value::BulkString(words), errors @ ..] = items.as_slice() else { return None };
        let token = read_token(token)?;
        let mut words = Words(words);
        let mut errors = errors.iter();
        let mut records = Vec::new();
        while let Some(word) = words.next() {
            records.push(match word {
                b"!" => match errors.next()? {
                    Value::ServerError(why) => Err(why.clone()),
                    _ => return None,
                },
                first => {
                    let current = words.cell(first)?;
                    let first = words.next()?;
                    Ok(Held { current, previous: words.cell(first)? })
                }
            });
        }
        let is_over = words.0.is_empty() && errors.next().is_none();
        is_over.then_some(Self { token, records })
    }
}

/// What is left of a text whose words are told apart by spaces.
struct Words<'a>(&'a [u8]);

impl<'a> Words<'a> {
    fn next(&mut self) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|byte| *byte == b' ').unwrap_or(self.0.len());
        let (word, rest) = self.0.split_at_checked(end)?;
        self.0 = rest.get(1..).unwrap_or_default();
        (!word.is_empty()).then_some(word)
    }

    fn number(word: &[u8]) -> Option<u64> {
        std::str::from_utf8(word).ok()?.parse().ok()
    }

    /// The cell whose first word this is.
    fn cell(&mut self, first: &[u8]) -> Option<HeldCell> {
        if first == b"-" {
            return Some(HeldCell::default());
        }
        let (sum, had) = (Self::number(first)?, Self::number(self.next()?)?);
        let components = u32::try_from(Self::number(self.next()?)?).unwrap_or(u32::MAX);
        Some(HeldCell { sum, had, components })
    }
}

impl Held {
    /// Takes both cells off the front.
    pub(super) fn read(values: &mut &[Value]) -> Option<Self> {
        Some(Self { current: cell(values)?, previous: cell(values)? })
    }

    /// The reply to the record of which this is held.
    pub(super) fn reply(self, record: &Record) -> Reply {
        let previous = match record.sequence {
            // That was the current one once more.
            0 => CellReply::default(),
            _ => self.previous.reply(record.previous_total),
        };
        Reply { current: self.current.reply(record.total), previous }
    }
}

impl HeldCell {
    fn reply(self, total: u64) -> CellReply {
        let Self { sum, had, components } = self;
        CellReply { sum, recorded: total.max(had), had, components }
    }
}

/// Takes one cell off the front.
fn cell(values: &mut &[Value]) -> Option<HeldCell> {
    match *values {
        [Value::Nil, others @ ..] => {
            *values = others;
            Some(HeldCell::default())
        }
        [sum, had, components, others @ ..] => {
            *values = others;
            let components = u32::try_from(number(components)?).unwrap_or(u32::MAX);
            Some(HeldCell { sum: number(sum)?, had: number(had)?, components })
        }
        _ => None,
    }
}

/// The token at the front of an answer.
pub(super) fn read_token(value: &Value) -> Option<Token> {
    let Value::BulkString(token) = value else { return None };
    Some(Token(u128::from_be_bytes(token.as_slice().try_into().ok()?)))
}

/// A count, whether it came as a number or as text.
pub(super) fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        Value::BulkString(text) => std::str::from_utf8(text).ok()?.parse().ok(),
        _ => None,
    }
}

/// Bytes in hexadecimal, as they stand in a key.
pub(super) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().saturating_mul(2));
    push_hex(&mut text, bytes);
    text
}

fn push_hex(text: &mut String, bytes: &[u8]) {
    let digit = |half: u8| char::from(half + if half < 10 { b'0' } else { b'a' - 10 });
    for byte in bytes {
        text.push(digit(byte >> 4));
        text.push(digit(byte & 0xf));
    }
}

/// Whether a record can be counted exactly.
pub(super) const fn is_exact(record: &Record) -> bool {
    record.total <= TOTAL_MAX && record.previous_total <= TOTAL_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error() -> Value {
        let parsed = redis::parse_redis_value(b"-WRONGTYPE Operation against a key\r\n");
        let error = parsed.unwrap();
        assert!(matches!(error, Value::ServerError(_)));
        error
    }

    #[test]
    fn a_command_names_the_cells_of_all_records_before_it_tells_of_them() {
        let record = |byte: u8, sequence| Record {
            subject: tidegate_limiter::Digest::from_bytes([byte; 16]),
            window_ms: 60_000,
            sequence,
            component: tidegate_convergence::Component { incarnation: 1, life: 0 },
            total: 4,
            previous_total: 2,
        };
        let records = [record(0x0f, 10), record(0xa0, 0)];
        let (tag, proposal) = (Tag::Shard(Shard(3)), Token(7));
        let common = Common { tag, proposal, token_life_ms: 9, renew: false };
        let command = Script::new("p").run(&common, records.iter());
        let args: Vec<&[u8]> = command
            .args_iter()
            .map(|arg| if let redis::Arg::Simple(arg) = arg { arg } else { b"" })
            .collect();
        assert_eq!(
            (args[0], args[2], args[3]),
            (&b"EVALSHA"[..], &b"5"[..], &b"p:1:{3}:token"[..])
        );
        let [first, second] = ["0f".repeat(16), "a0".repeat(16)];
        let keys = [(&first, 10), (&first, 9), (&second, 0), (&second, 0)]
            .map(|(digest, sequence)| format!("p:1:{{3}}:{digest}:{sequence}"));
        assert_eq!(args[4..8], keys.each_ref().map(|key| key.as_bytes()));
        assert_eq!(keys[..2], cells("p:1:{3}:", &records[0]));
        assert_eq!(args.len(), HEAD_ARGS + 2 * RECORD_ARGS);
    }

    #[test]
    fn an_answer_is_read_whole_or_not_at_all() {
        let token = Value::BulkString(7_u128.to_be_bytes().to_vec());
        let text = |words: &str| Value::BulkString(words.as_bytes().to_vec());
        let read = |words: &str, errors: &[Value]| {
            let items = [&[token.clone(), text(words)], errors].concat();
            Answer::read(&Value::Array(items))
        };
        let only = read("", &[]).unwrap();
        assert_eq!((only.token, only.records), (Token(7), vec![]));
        let mixed = "! 9007199254740993 2 1 5 4 3 ! - 5 4 3";
        let errors = [error(), error()];
        let records = read(mixed, &errors).unwrap().records;
        let sum = 9_007_199_254_740_993;
        let current = HeldCell { sum, had: 2, components: 1 };
        let previous = HeldCell { sum: 5, had: 4, components: 3 };
        assert!(matches!(&records[..], [Err(_), Ok(_), Err(_), Ok(_)]), "{records:?}");
        assert_eq!(records[1], Ok(Held { current, previous }));
        assert_eq!(records[3], Ok(Held { current: HeldCell::default(), previous }));
        let recorded = [1, 3].map(|total| current.reply(total).recorded);
        assert_eq!(recorded, [2, 3], "what it had, or what was sent");
        assert!(read(mixed, &errors[..1]).is_none(), "an error is missing");
        assert!(read("- -", &errors).is_none(), "nothing failed");
        assert!(read("!", &[text("no error")]).is_none());
        for wrong in ["1", "-", "- 1 2", "5 4 -1 -", "5 4 3 2 1", "- x 4 3", "5 4 3", "- -  - -"] {
            assert!(read(wrong, &[]).is_none(), "{wrong}");
        }
        let array = |items: &[Value]| Answer::read(&Value::Array(items.to_vec()));
        assert!(array(&[]).is_none() && array(std::slice::from_ref(&token)).is_none());
        assert!(array(&[text("short"), text("")]).is_none());
    }
}
