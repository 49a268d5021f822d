//! The findings of the doctor on a page: the sentence with links to what it names, and the buttons that repair it.

use diesel_jobs_core::storage::{Finding, HaltedSequence};

use crate::around::Around;
use crate::reason::{Offer, Told};
use crate::rights::Action;
use crate::sentence::{Named, Sentence, named_in};
use crate::shell::Shell;

/// A finding on a page.
pub(crate) fn told(shell: &Shell, around: &Around, finding: &Finding) -> Told {
    Told {
        text: Sentence::new(&finding.what, &around.named, &shell.base),
        advice: Sentence::default(),
        offers: offers(shell, around, finding),
    }
}

/// The buttons that repair it. Most repairs are not to be had here.
fn offers(shell: &Shell, around: &Around, finding: &Finding) -> Vec<Offer> {
    let (mut queue, mut kind, mut limit, mut job) = (None, None, None, None);
    // The first one of each is what the finding is about.
    for named in named_in(&finding.what, &around.named).into_iter().rev() {
        match named {
            Named::Queue(name) => queue = Some(name.as_str()),
            Named::Kind(name) => kind = Some(name.as_str()),
            Named::Limit(name) => limit = Some(name.as_str()),
            // The key stands before the job, and may be any text.
            Named::Job(id) => job = job.or(Some(*id)),
            Named::Worker(_) => {}
        }
    }
    let of = |right, button, name: Option<&str>| Offer::of(shell, right, button, &[("name", name?)]);
    let offer = match finding.check {
        "queue_paused" => of(Action::Pause, ("Resume the queue", "queue-resume"), queue),
        "kind_paused" => of(Action::Pause, ("Resume the kind", "kind-resume"), kind),
        "no_slots" => of(Action::Slots, ("Change the slots", "queue-slots"), queue),
        "oldest_held" if finding.repair.contains("worker limits set") => {
            of(Action::Limits, ("Set the limit", "limit-set"), limit)
        }
        "halted_sequence" => {
            let is_there =
                |halted: &&HaltedSequence| Some(halted.job) == job && finding.repair.starts_with("worker retry");
            let halted = around.halted.iter().find(is_there);
            let offers = halted.map(|halted| {
                let retry = format!("Retry job {}", halted.job);
                Offer::of_halted(shell, halted.job, &retry, (&halted.name, &halted.key))
            });
            return offers.unwrap_or_default();
        }
        _ => None,
    };
    offer.into_iter().collect()
}
