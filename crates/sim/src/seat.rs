//! Ghosts move with the subjects they shadow.

use tidegate_limiter::planted::{self, Planted};

use crate::ghost::{Ghost, Gone, Reading};
use crate::node::{Ask, Process};
use crate::truth::End;
use crate::world::World;

impl World {
    /// Makes a ghost for a subject that was taken in, and moves those that are there.
    pub(crate) fn seat(&mut self, process: &mut Process, subject: usize, reading: Reading) {
        let Some(spec) = self.specs.get(subject) else { return };
        let (number, home, window_ms) = (process.number, process.home, spec.window_ms);
        if !process.ghosts.contains_key(&subject) {
            let Ok(request) = spec.request(Ask::look(subject)) else { return };
            let sequence = reading.unix_ms / window_ms;
            let Some(cell) = process.table.cell(request.subject(), sequence) else { return };
            self.eras += 1;
            let mut ghost = Ghost::new(self.eras, window_ms, reading);
            ghost.life = cell.life();
            process.ghosts.insert(subject, ghost);
            return;
        }
        let Some(ghost) = process.ghosts.get_mut(&subject) else { return };
        let (mut gone, renames, turn) = (Vec::new(), ghost.current.former.len(), ghost.turn);
        ghost.place(reading, &mut gone);
        let (owner, sequence) = ((number, ghost.life), ghost.sequence);
        let turned = ghost.turn == turn + 1;
        if ghost.turn == turn && ghost.current.former.len() > renames {
            self.rename(process, subject);
        }
        for (sequence, side) in gone {
            self.leave(home, (subject, owner), (sequence, side));
        }
        if turned && planted::is(Planted::RolloverReset) {
            self.reset_early(process, subject, sequence);
        }
    }

    /// A cell has left the sliding window.
    fn leave(
        &mut self,
        home: usize,
        (subject, owner): (usize, (u32, u64)),
        (sequence, side): Gone,
    ) {
        let _ = side;
        self.homes.at_mut(home).truth.end((subject, sequence), owner, End::Left);
    }

    /// A clock jumped: what was admitted under the old names counts under the new ones.
    fn rename(&mut self, process: &Process, subject: usize) {
        let Some(ghost) = process.ghosts.get(&subject) else { return };
        let (owner, home) = ((process.number, ghost.life), process.home);
        let truth = &mut self.homes.at_mut(home).truth;
        let before = ghost.sequence.saturating_sub(1);
        let sides = [(ghost.sequence, &ghost.current), (before, &ghost.previous)];
        for (_, side) in sides {
            for name in &side.former {
                truth.end((subject, *name), owner, End::Renamed);
            }
        }
        for (sequence, side) in sides {
            truth.carry((subject, sequence), owner, side.mine);
        }
    }
}
