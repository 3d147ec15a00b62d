//! Where one frame of HTTP/2 ends and the next begins: as much of the protocol as it takes to see
//! that a client dribbles. The library that speaks HTTP/2 waits for the rest of a frame for ever.

/// The length of what a client sends before its first frame.
const PREFACE_BYTES: u32 = 24;
/// The length of what precedes each frame: a length of three bytes, the type, flags, the stream.
const HEAD_BYTES: usize = 9;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PUSH_PROMISE: u8 = 5;
const CONTINUATION: u8 = 9;
/// The flag that says that no more headers follow.
const END_HEADERS: u8 = 4;

/// Follows the frames of one client.
#[derive(Debug)]
pub(super) struct Frames {
    head: [u8; HEAD_BYTES],
    /// How much of `head` has arrived.
    arrived: usize,
    /// How much of the present frame is still to come.
    left: u32,
    /// Whether that is data: a body, which has a deadline of its own.
    is_data: bool,
    /// Whether a list of headers has begun that has not ended.
    in_headers: bool,
    /// How often something began.
    begun: u64,
}

impl Frames {
    /// From the first byte on.
    pub(super) const fn new() -> Self {
        Self {
            head: [0; HEAD_BYTES],
            arrived: 0,
            left: PREFACE_BYTES,
            is_data: false,
            in_headers: false,
            begun: 0,
        }
    }

    /// What is incomplete: a number that differs from one frame, or list of headers, to the next.
    pub(super) const fn incomplete(&self) -> Option<u64> {
        let within = self.arrived > 0 || (self.left > 0 && !self.is_data);
        if within || self.in_headers { Some(self.begun) } else { None }
    }

    /// Takes note of bytes.
    pub(super) fn note(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            bytes = if self.left > 0 { self.pass(bytes) } else { self.collect(bytes) };
        }
    }

    /// Passes what belongs to the present frame; gives the rest.
    fn pass<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        let (passed, rest) = bytes.split_at(left.min(bytes.len()));
        self.left = self.left.saturating_sub(u32::try_from(passed.len()).unwrap_or(u32::MAX));
        rest
    }

    /// Collects the head of the next frame; gives the rest.
    fn collect<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        if self.arrived == 0 && !self.in_headers {
            self.begun = self.begun.wrapping_add(1);
        }
        let wanted = HEAD_BYTES.saturating_sub(self.arrived);
        let (taken, rest) = bytes.split_at(wanted.min(bytes.len()));
        for (to, from) in self.head.iter_mut().skip(self.arrived).zip(taken) {
            *to = *from;
        }
        self.arrived = self.arrived.saturating_add(taken.len());
        if self.arrived == HEAD_BYTES {
            self.begin();
        }
        rest
    }

    fn begin(&mut self) {
        let [long, middle, short, kind, flags, ..] = self.head;
        self.arrived = 0;
        self.left = u32::from_be_bytes([0, long, middle, short]);
        self.is_data = kind == DATA;
        if matches!(kind, HEADERS | PUSH_PROMISE | CONTINUATION) {
            self.in_headers = flags & END_HEADERS == 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, payload: usize) -> Vec<u8> {
        let [_, long, middle, short] = u32::try_from(payload).unwrap().to_be_bytes();
        let mut frame = vec![long, middle, short, kind, flags, 0, 0, 0, 1];
        frame.resize(HEAD_BYTES + payload, 7);
        frame
    }

    fn after(bytes: &[u8], step: usize) -> Frames {
        let mut frames = Frames::new();
        frames.note(&[b'P'; 24]);
        bytes.chunks(step).for_each(|chunk| frames.note(chunk));
        frames
    }

    #[test]
    fn whole_frames_leave_nothing_incomplete_however_they_are_cut() {
        let all = [
            frame(4, 0, 18),
            frame(HEADERS, END_HEADERS, 40),
            frame(DATA, 1, 300),
            frame(HEADERS, 0, 5),
            frame(CONTINUATION, 0, 0),
            frame(CONTINUATION, END_HEADERS, 9),
            frame(6, 0, 8),
        ]
        .concat();
        for step in [1, 2, 7, 9, 10, 64, 1_000] {
            assert_eq!(after(&all, step).incomplete(), None, "{step}");
        }
    }

    #[test]
    fn what_has_begun_and_not_ended_is_incomplete() {
        let part = |bytes: Vec<u8>, end: usize| after(&bytes[..end], 64).incomplete();
        assert!(Frames::new().incomplete().is_some(), "the preface");
        assert!(part(frame(HEADERS, END_HEADERS, 40), 3).is_some(), "the head of a frame");
        assert!(part(frame(HEADERS, END_HEADERS, 40), 48).is_some(), "its payload");
        assert!(part(frame(HEADERS, 0, 40), 49).is_some(), "headers to be continued");
        assert_eq!(part(frame(DATA, 0, 40), 30), None, "a body has a deadline of its own");
    }

    #[test]
    fn a_frame_is_told_from_the_next_and_headers_are_one_with_their_continuation() {
        let mut frames = after(&frame(6, 0, 8)[..12], 64);
        let ping = frames.incomplete();
        frames.note(&[frame(6, 0, 8)[12..].to_vec(), frame(HEADERS, 0, 8)].concat());
        let headers = frames.incomplete();
        assert!(ping.is_some() && headers.is_some() && ping != headers);
        frames.note(&frame(CONTINUATION, 0, 8));
        assert_eq!(frames.incomplete(), headers);
        frames.note(&frame(CONTINUATION, END_HEADERS, 8)[..10]);
        assert!(frames.incomplete().is_some());
    }
}
