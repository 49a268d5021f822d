//! The word to an attempt that it should stop. Most attempts never hear it and never listen: the token that can be waited
//! on is made when somebody does.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use tokio_util::sync::CancellationToken;

#[derive(Default)]
pub(crate) struct Stop {
    asked: AtomicBool,
    lost: AtomicBool,
    token: OnceLock<CancellationToken>,
}

impl Stop {
    /// Somebody else's token.
    pub(crate) fn by(token: CancellationToken) -> Self {
        Self { token: token.into(), ..Self::default() }
    }

    pub(crate) fn ask(&self) {
        self.asked.store(true, Ordering::Relaxed);
        // Pairs with the one below: either this sees the token, or who made the token sees the flag.
        fence(Ordering::SeqCst);
        if let Some(token) = self.token.get() {
            token.cancel();
        }
    }

    pub(crate) fn token(&self) -> &CancellationToken {
        let token = self.token.get_or_init(CancellationToken::new);
        fence(Ordering::SeqCst);
        if self.asked.load(Ordering::Relaxed) {
            token.cancel();
        }
        token
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Acquire) || self.token.get().is_some_and(CancellationToken::is_cancelled)
    }

    /// Asks, because the lease is lost.
    pub(crate) fn lose(&self) {
        self.lost.store(true, Ordering::Release);
        self.ask();
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_listens_hears_it_however_late() {
        let stop = Stop::default();
        let early = stop.token().clone();
        assert!(!stop.is_asked() && !early.is_cancelled());
        stop.ask();
        assert!(stop.is_asked() && early.is_cancelled() && !stop.is_lost());

        let stop = Stop::default();
        stop.lose();
        assert!(stop.is_asked() && stop.is_lost() && stop.token().is_cancelled());
    }

    #[test]
    fn a_listener_and_the_word_at_the_same_moment_do_not_miss_each_other() {
        for _ in 0..2000 {
            let stop = Stop::default();
            let token = std::thread::scope(|scope| {
                scope.spawn(|| stop.ask());
                stop.token().clone()
            });
            assert!(token.is_cancelled());
        }
    }
}
