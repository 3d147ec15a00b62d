//! The board: how a call to it becomes a command, and an answer a reply.

use redis::{Cmd, Value};
use tidegate_convergence::{
    BoardCall, BoardReply, IDENTITY_LIFE_MS, POSTS_LIFE_MS, POSTS_MAX, Post,
};
use tidegate_limiter::Digest;

use super::execution::Execution;
use super::script::{self, LIFE_MAX_MS, TOTAL_MAX, number};

/// The script itself. Its head says what it takes and returns.
const BOARD: &str = include_str!("board.lua");

/// How many posts one execution takes. Nobody else is served meanwhile: at 1.5 us for a post that
/// is new, 700 us.
pub(super) const CALL_POSTS_MAX: usize = 512;
/// How many posts one execution gives: 600 us if that is all there are, 2 ms if there are many
/// more, of which it has to choose. Who wants more asks again.
const TAKE_MAX: usize = 1_000;

// Lua puts no more than 8,000 words into one command, and a post has two.
const _: () = assert!(CALL_POSTS_MAX * 2 < 8_000 && TAKE_MAX < 8_000);

/// The script and the names of its keys.
#[derive(Debug)]
pub(super) struct BoardScript {
    keys: [String; 4],
    sha1: String,
    lives: Lives,
}

/// How long what is on a board stays.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lives {
    pub(super) posts_ms: u64,
    pub(super) identity_ms: u64,
}

/// The lives on the board of a region.
pub(super) const LIVES: Lives = Lives { posts_ms: POSTS_LIFE_MS, identity_ms: IDENTITY_LIFE_MS };

impl BoardScript {
    /// The board whose keys begin with this.
    pub(super) fn new(start: &str, lives: Lives) -> Self {
        let sha1 = redis::Script::new(BOARD).get_hash().to_owned();
        let keys = ["posts", "due", "leader", "region"].map(|key| format!("{start}{key}"));
        Self { keys, sha1, lives }
    }

    /// The command that makes a server know the script.
    pub(super) fn load() -> Cmd {
        script::load(BOARD)
    }

    /// The command for a call.
    pub(super) fn run(&self, call: &BoardCall) -> Cmd {
        self.run_part(call, &call.posts, call.take_max)
    }

    /// Posts these of the call, at most [`CALL_POSTS_MAX`], and takes as many as told.
    pub(super) fn execute(
        &self,
        call: &BoardCall,
        posts: &[Post],
        take_max: usize,
    ) -> Execution<BoardReply> {
        Execution::new(self.run_part(call, posts, take_max), Self::load, read)
    }

    /// The command for up to [`CALL_POSTS_MAX`] posts of a call.
    fn run_part(&self, call: &BoardCall, posts: &[Post], take_max: usize) -> Cmd {
        let mut command = redis::cmd("EVALSHA");
        command.arg(&self.sha1).arg(self.keys.len()).arg(&self.keys);
        command.arg(&call.who.to_be_bytes()).arg(&call.identity.to_be_bytes());
        command.arg(u8::from(call.sure)).arg(self.lives.identity_ms);
        // Redis refuses a time to live that does not fit its clock.
        command.arg(call.lease_ms.min(LIFE_MAX_MS)).arg(take_max.min(TAKE_MAX));
        command.arg(u8::from(call.hurry)).arg(call.within_ms.min(LIFE_MAX_MS));
        command.arg(self.lives.posts_ms).arg(POSTS_MAX);
        for post in posts {
            command.arg(&place(post));
        }
        for post in posts {
            // What Lua cannot compare exactly is as good as never reached.
            command.arg(post.step.min(TOTAL_MAX));
        }
        command
    }
}

/// The name of a post on the board: everything but its step.
fn place(post: &Post) -> [u8; 32] {
    let mut place = [0; 32];
    let subject = post.subject.as_bytes().iter().copied();
    let numbers = [post.window_ms, post.sequence].map(u64::to_be_bytes).into_iter().flatten();
    place.iter_mut().zip(subject.chain(numbers)).for_each(|(to, from)| *to = from);
    place
}

/// Reads the answer to an execution; `None` if it is not one.
pub(super) fn read(value: &Value) -> Option<BoardReply> {
    let Value::Array(items) = value else { return None };
    let [Value::BulkString(identity), Value::Int(leads @ (0 | 1)), due, posts @ ..] =
        items.as_slice()
    else {
        return None;
    };
    let identity = u128::from_be_bytes(identity.as_slice().try_into().ok()?);
    let due_in_ms = match due {
        Value::Nil => None,
        due => Some(number(due)?),
    };
    let (posts, []) = posts.as_chunks::<2>() else { return None };
    let taken = posts.iter().map(read_post).collect::<Option<_>>()?;
    Some(BoardReply { identity, leads: *leads == 1, taken, due_in_ms })
}

/// Reads a place and a step.
fn read_post([place, step]: &[Value; 2]) -> Option<Post> {
    let Value::BulkString(place) = place else { return None };
    let (subject, numbers) = place.split_first_chunk()?;
    let (window_ms, sequence) = numbers.split_first_chunk()?;
    Some(Post {
        subject: Digest::from_bytes(*subject),
        window_ms: u64::from_be_bytes(*window_ms),
        sequence: u64::from_be_bytes(sequence.try_into().ok()?),
        step: number(step)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_whole_or_not_at_all() {
        let bytes = |bytes: &[u8]| Value::BulkString(bytes.to_vec());
        let subject = Digest::from_bytes([9; 16]);
        let step = (1 << 53) - 1;
        let post = Post { subject, window_ms: u64::MAX, sequence: 1 << 60, step };
        let region = bytes(&7_u128.to_be_bytes());
        let (place, step) = (bytes(&place(&post)), bytes(b"9007199254740991"));
        let due = Value::Int(5);
        let start = [region.clone(), Value::Int(1), due.clone()];
        let whole = [&start[..], &[place.clone(), step.clone()]].concat();
        let read = |items: &[Value]| read(&Value::Array(items.to_vec()));
        let reply = BoardReply { identity: 7, leads: true, taken: vec![post], due_in_ms: Some(5) };
        assert_eq!(read(&whole), Some(reply));
        let empty = BoardReply { identity: 7, leads: false, taken: vec![], due_in_ms: None };
        assert_eq!(read(&[region.clone(), Value::Int(0), Value::Nil]), Some(empty));
        for end in 0..whole.len() {
            assert_eq!(read(&whole[..end]).is_some(), end == 3, "{end}");
        }
        for (at, wrong) in [
            (0, bytes(b"short")),
            (0, Value::Nil),
            (1, Value::Int(2)),
            (1, Value::Nil),
            (2, Value::Int(-1)),
            (3, bytes(&[1; 31])),
            (3, bytes(&[1; 33])),
            (4, bytes(b"-1")),
            (4, Value::Nil),
        ] {
            let mut items = whole.clone();
            items[at] = wrong;
            assert_eq!(read(&items), None, "{at}");
        }
        assert_eq!(super::read(&Value::Nil), None);
    }
}
