//! Makes bad inputs from good ones and a seed: inserts words, deletes, doubles and replaces parts, changes bytes.

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

/// The most changes to one input.
const CHANGES: usize = 8;
/// The maximum length of an input, in bytes.
const LENGTH: usize = 4096;

/// Generates inputs.
pub(super) struct Garbler {
    rng: StdRng,
    seeds: &'static [&'static str],
    words: &'static [&'static str],
}

impl Garbler {
    pub(super) fn new(seed: u64, seeds: &'static [&'static str], words: &'static [&'static str]) -> Self {
        Self { rng: StdRng::seed_from_u64(seed), seeds, words }
    }

    fn one_of(&mut self, texts: &'static [&'static str]) -> &'static [u8] {
        texts[self.rng.random_range(0..texts.len())].as_bytes()
    }

    /// Returns a random part of a text as two positions.
    fn part(&mut self, text: &[u8]) -> (usize, usize) {
        let (one, other) = (self.rng.random_range(0..=text.len()), self.rng.random_range(0..=text.len()));
        (one.min(other), one.max(other))
    }

    pub(super) fn next(&mut self) -> Vec<u8> {
        let mut text = self.one_of(self.seeds).to_vec();
        for _ in 0..self.rng.random_range(0..=CHANGES) {
            let (from, to) = self.part(&text);
            match self.rng.random_range(0..6) {
                0 => {
                    let word = self.one_of(self.words);
                    text.splice(from..from, word.iter().copied());
                }
                1 => {
                    let word = self.one_of(self.words);
                    text.splice(from..to, word.iter().copied());
                }
                2 => drop(text.drain(from..to)),
                3 => text.extend_from_within(from..to),
                4 => {
                    let other = self.one_of(self.seeds);
                    let (start, end) = self.part(other);
                    text.splice(from..to, other[start..end].iter().copied());
                }
                _ => {
                    if let Some(byte) = text.get_mut(from) {
                        *byte = self.rng.random();
                    }
                }
            }
            text.truncate(LENGTH);
        }
        text
    }
}
