//! One call under way: what is still to be sent, and what came back.

use redis::{Pipeline, ServerError, ServerErrorKind, Value};
use tidegate_convergence::{
    Ask, AskReply, Record, Reply, Shard, ShardCall, ShardReply, StoreError, Token,
};

use super::ask::{Answered, is_sound};
use super::cluster::read_moved;
use super::config::Address;
use super::info::Info;
use super::present;
use super::script::{Answer, Code, Common, RECORDS_MAX, Script, TOKEN_LIFE_MS, Tag, is_exact};

/// The records of one execution, each with its place in the call. Without any it asks only for the
/// token.
type Batch<'a> = Vec<(usize, &'a Record)>;

/// What one execution is for.
#[derive(Clone, Debug)]
enum Part<'a> {
    Records(Batch<'a>),
    Ask(&'a Ask),
    Present(u128),
}

impl Part<'_> {
    const fn code(&self) -> Code {
        match self {
            Self::Records(_) => Code::Record,
            Self::Ask(_) => Code::Ask,
            Self::Present(_) => Code::Present,
        }
    }
}

/// The progress of a call.
#[derive(Debug)]
pub(super) struct Work<'a> {
    script: &'a Script,
    call: &'a ShardCall,
    common: Common,
    /// What is to be sent.
    wanted: Vec<Part<'a>>,
    replies: Vec<Option<Reply>>,
    asked: Option<AskReply>,
    present: Option<u32>,
    token: Option<Token>,
    server: Option<u64>,
    refusal: Option<String>,
    /// Which scripts are to be sent before the rest.
    load: Vec<Code>,
}

/// What a round of answers asks us to do before the next one.
#[derive(Debug, Default)]
pub(super) struct Advice {
    /// Another node owns the shard.
    pub(super) moved: Option<Address>,
    /// We asked a replica.
    pub(super) replica: bool,
    /// The cluster does not serve the shard, or not here.
    pub(super) doubt: bool,
}

impl Advice {
    /// What an error asks for.
    pub(super) fn heed(&mut self, why: &ServerError) {
        match why.kind() {
            Some(ServerErrorKind::ReadOnly) => self.replica = true,
            Some(ServerErrorKind::ClusterDown | ServerErrorKind::MasterDown) => self.doubt = true,
            Some(ServerErrorKind::Moved) => {
                self.doubt = true;
                self.moved = read_moved(why.details().unwrap_or_default());
            }
            _ => {}
        }
    }
}

/// Something that is sent in rounds: what was not executed is sent again.
pub(super) trait Rounds {
    /// Whether there is something to send.
    fn is_open(&self) -> bool;

    /// The commands of the next round.
    fn commands(&self) -> Pipeline;

    /// Takes the answers to [`Rounds::commands`].
    fn take(&mut self, values: &[Value]) -> Advice;
}

impl<'a> Work<'a> {
    pub(super) fn new(script: &'a Script, call: &'a ShardCall, shard: Shard) -> Self {
        // What cannot be counted exactly is refused here.
        let exact: Batch<'a> =
            call.records.iter().enumerate().filter(|(_, record)| is_exact(record)).collect();
        let ask = call.ask.as_ref().filter(|ask| is_sound(ask)).map(Part::Ask);
        let mut wanted: Vec<_> = call.present.map(Part::Present).into_iter().collect();
        // An ask tells the token as well, but does not renew its life.
        if exact.is_empty() && (ask.is_none() || call.identify) {
            wanted.push(Part::Records(Batch::new()));
        }
        wanted.extend(exact.chunks(RECORDS_MAX).map(|batch| Part::Records(batch.to_vec())));
        wanted.extend(ask);
        let (proposal, renew) = (call.proposal, call.identify);
        let common =
            Common { tag: Tag::Shard(shard), proposal, token_life_ms: TOKEN_LIFE_MS, renew };
        Self {
            script,
            call,
            common,
            wanted,
            replies: vec![None; call.records.len()],
            asked: None,
            present: None,
            token: None,
            server: None,
            refusal: None,
            load: vec![],
        }
    }

    /// Whether the server is still to be asked who it is.
    const fn must_identify(&self) -> bool {
        self.call.identify && self.server.is_none()
    }

    fn take_part(&mut self, part: Part<'a>, value: &Value, advice: &mut Advice) {
        if let Value::ServerError(why) = value {
            self.take_error(why, advice);
            let unknown = why.kind() == Some(ServerErrorKind::NoScript);
            if unknown && !self.load.contains(&part.code()) {
                self.load.push(part.code());
            }
            if unknown || why.kind() == Some(ServerErrorKind::Moved) {
                self.wanted.push(part);
            }
            return;
        }
        let known = match part {
            Part::Records(batch) => self.take_batch(batch, value, advice),
            Part::Ask(ask) => self.take_ask(ask, value, advice),
            Part::Present(_) => {
                self.present = present::read(value);
                self.present.map(|_| ())
            }
        };
        if known.is_none() {
            self.refuse("the script gave a strange answer".to_owned());
        }
    }

    /// `None` if it is no answer to them.
    fn take_batch(&mut self, batch: Batch<'a>, value: &Value, advice: &mut Advice) -> Option<()> {
        let answer = Answer::read(value).filter(|answer| answer.records.len() == batch.len())?;
        // A shard that refused all it was sent did not answer. Of several tokens the last: it
        // names what the shard remembers now.
        if batch.is_empty() || answer.records.iter().any(Result::is_ok) {
            self.token = Some(answer.token);
        }
        for ((index, record), held) in batch.into_iter().zip(answer.records) {
            match held {
                Ok(held) => {
                    if let Some(reply) = self.replies.get_mut(index) {
                        *reply = Some(held.reply(record));
                    }
                }
                Err(why) => self.take_error(&why, advice),
            }
        }
        Some(())
    }

    /// `None` if it is no answer to it.
    fn take_ask(&mut self, ask: &Ask, value: &Value, advice: &mut Advice) -> Option<()> {
        let answered = Answered::read(value, ask)?;
        // An ask that failed alone failed by its cells: that is not told of the shard.
        if answered.asked.is_ok() || self.call.records.is_empty() {
            self.token = Some(answered.token);
        }
        match answered.asked {
            Ok(asked) => self.asked = Some(asked),
            Err(why) => self.take_error(&why, advice),
        }
        Some(())
    }

    /// An error, of an execution or of what it carried.
    fn take_error(&mut self, why: &ServerError, advice: &mut Advice) {
        advice.heed(why);
        self.refuse(why.to_string());
    }

    /// Remembers the first reason.
    fn refuse(&mut self, why: String) {
        self.refusal.get_or_insert(why);
    }

    /// The reply to the call: an error if nothing at all came back, or not what was asked.
    pub(super) fn finish(self) -> Result<ShardReply, StoreError> {
        let refusal = || {
            let why = self.refusal.clone().unwrap_or_else(|| "there was no answer".to_owned());
            StoreError::Refused(why)
        };
        let token = self.token.ok_or_else(refusal)?;
        if self.must_identify() {
            return Err(refusal());
        }
        let Self { server, present, replies, asked, .. } = self;
        Ok(ShardReply { token, server, present, replies, asked })
    }
}

impl Rounds for Work<'_> {
    fn is_open(&self) -> bool {
        !self.wanted.is_empty()
    }

    fn commands(&self) -> Pipeline {
        let mut commands = Pipeline::with_capacity(self.wanted.len().saturating_add(3));
        for code in &self.load {
            commands.add_command(code.load());
        }
        if self.must_identify() {
            commands.cmd("INFO").arg("server").cmd("INFO").arg("replication");
        }
        let common = &self.common;
        for part in &self.wanted {
            commands.add_command(match part {
                Part::Records(batch) => {
                    self.script.run(common, batch.iter().map(|(_, record)| *record))
                }
                Part::Ask(ask) => self.script.ask(common, ask),
                Part::Present(incarnation) => self.script.present(common.tag, *incarnation),
            });
        }
        commands
    }

    fn take(&mut self, values: &[Value]) -> Advice {
        let mut advice = Advice::default();
        let mut values = values.iter();
        for _ in std::mem::take(&mut self.load) {
            if let Some(Value::ServerError(why)) = values.next() {
                // Without the script the rest will say NOSCRIPT again; this says why.
                self.refuse(why.to_string());
            }
        }
        if self.must_identify() {
            let parts: Option<Vec<_>> = values.by_ref().take(2).map(Info::read).collect();
            let info = parts.map(Info::join);
            advice.replica = info.as_ref().is_some_and(Info::is_replica);
            self.server = info.as_ref().and_then(Info::server);
            if self.server.is_none() {
                self.refuse("the server does not say who it is".to_owned());
            }
        }
        for part in std::mem::take(&mut self.wanted) {
            self.take_part(part, values.next().unwrap_or(&Value::Nil), &mut advice);
        }
        if advice.moved.is_some() {
            // That was the number of the node that no longer owns the shard.
            self.server = None;
        }
        advice
    }
}
