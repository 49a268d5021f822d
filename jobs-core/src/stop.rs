//! The request to an attempt to stop. Most attempts never wait for such a request. So the token on which they can wait
//! is made at its first use.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use tokio_util::sync::CancellationToken;

#[derive(Default)]
pub(crate) struct Stop {
    asked: AtomicBool,
    lost: AtomicBool,
    cancelled: AtomicBool,
    token: OnceLock<CancellationToken>,
}

impl Stop {
    /// Uses the caller's token.
    pub(crate) fn by(token: CancellationToken) -> Self {
        Self { token: token.into(), ..Self::default() }
    }

    pub(crate) fn ask(&self) {
        self.asked.store(true, Ordering::Relaxed);
        // Pairs with the fence in `token`: either this thread sees the token, or the thread that made it sees the flag.
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

    /// Asks the attempt to stop, because its lease is lost.
    pub(crate) fn lose(&self) {
        self.lost.store(true, Ordering::Release);
        self.ask();
    }

    /// Records that an operator has cancelled the job. Returns `true` at the first call.
    pub(crate) fn mark_cancelled(&self) -> bool {
        !self.cancelled.swap(true, Ordering::AcqRel)
    }

    /// Whether it is known that an operator has cancelled the job.
    pub(crate) fn is_cancelled_by_operator(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_cancelled_whether_it_is_made_before_or_after_the_request() {
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
    fn a_token_that_is_made_during_the_request_is_cancelled() {
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
