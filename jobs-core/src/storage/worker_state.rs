//! What a worker is and does, in words. Every view says it like this.

use super::runtime_settings::QueueSettings;
use crate::asked::Asked;
use crate::queue_pattern::{fits, is_pattern, served_as};
use crate::record::WorkerRecord;

impl WorkerRecord {
    /// Whether it claims jobs: it is alive, it does not drain, and no operator has asked it to be quiet or to stop.
    pub fn claims(&self) -> bool {
        self.alive && self.asked.is_none() && self.draining_at.is_none()
    }

    /// Whether it serves this queue, by its name or by a pattern.
    pub fn serves(&self, queue: &str) -> bool {
        !is_pattern(queue) && self.queues.iter().any(|name| fits(name, queue))
    }

    /// How many jobs of a queue it runs at once: what an operator has `set` for the queue, else what it was started
    /// with, and no more than its slots of all queues together. `None`: it is a worker of an earlier version, which
    /// does not say so.
    pub fn slots_of(&self, queue: &str, set: Option<u32>) -> Option<u32> {
        let started_with = || served_as(self.slots.keys(), queue).and_then(|name| self.slots.get(name));
        let slots = set.or_else(|| started_with().copied())?;
        Some(self.slots_total.map_or(slots, |total| slots.min(total)))
    }

    /// Its process and machine, as sentences name it.
    pub fn process(&self) -> String {
        format!("process {} on {}", self.pid, self.host)
    }

    /// `alive`, `draining` or `dead`. A worker that died while it was draining is `dead while draining`: its jobs will
    /// be released.
    pub fn life_text(&self) -> &'static str {
        match (self.alive, self.draining_at) {
            (true, None) => "alive",
            (true, Some(_)) => "draining",
            (false, None) => "dead",
            (false, Some(_)) => "dead while draining",
        }
    }

    /// The same, and what an operator has asked of a live worker: `asked to be quiet by anna`, `draining, asked to stop
    /// by anna`.
    pub fn state_text(&self) -> String {
        let by = self.asked_by.as_deref().unwrap_or("somebody");
        let asked = match self.asked {
            Some(Asked::Quiet) => format!("asked to be quiet by {by}"),
            Some(Asked::Stop) => format!("asked to stop by {by}"),
            None => return self.life_text().to_owned(),
        };
        match (self.alive, self.draining_at) {
            (false, _) => self.life_text().to_owned(),
            (true, None) => asked,
            (true, Some(_)) => format!("draining, {asked}"),
        }
    }

    /// Its queues with their slots, with these settings of operators: `mail=4, default=16`. If it has a limit of all
    /// queues together: `mail=4, default=16; at most 18 in all`.
    pub fn queues_text(&self, settings: &[QueueSettings]) -> String {
        let set = |queue: &str| settings.iter().find(|setting| setting.name == queue).and_then(|setting| setting.slots);
        let text = |queue: &String| match self.slots_of(queue, set(queue)) {
            Some(slots) => format!("{queue}={slots}"),
            None => queue.clone(),
        };
        let total = self.slots_total.map(|slots| format!("; at most {slots} in all")).unwrap_or_default();
        self.queues.iter().map(text).collect::<Vec<_>>().join(", ") + &total
    }
}

#[cfg(test)]
pub(super) mod tests {
    use chrono::DateTime;

    use super::*;
    use crate::lease::WorkerId;

    /// A worker with these queues and slots.
    pub(in super::super) fn worker(queues: &[(&str, u32)], alive: bool, asked: Option<Asked>) -> WorkerRecord {
        WorkerRecord {
            id: WorkerId::generate(),
            host: "here".to_owned(),
            pid: 1,
            queues: queues.iter().map(|(name, _)| (*name).to_owned()).collect(),
            started_at: DateTime::UNIX_EPOCH,
            heartbeat_at: DateTime::UNIX_EPOCH,
            alive,
            version: None,
            slots: queues.iter().map(|(name, slots)| ((*name).to_owned(), *slots)).collect(),
            slots_total: None,
            kinds: None,
            schedules: crate::declared_schedule::Declarations::new(),
            asked,
            asked_at: None,
            asked_by: asked.map(|_| "anna".to_owned()),
            draining_at: None,
        }
    }

    #[test]
    fn the_state_says_who_asked_for_it() {
        let state = |alive, asked| worker(&[("mail", 4)], alive, asked).state_text();
        assert_eq!(state(true, None), "alive");
        assert_eq!(state(true, Some(Asked::Quiet)), "asked to be quiet by anna");
        assert_eq!(state(true, Some(Asked::Stop)), "asked to stop by anna");
        assert_eq!(state(false, Some(Asked::Stop)), "dead");
    }

    #[test]
    fn a_worker_that_drains_says_so_and_claims_nothing() {
        let draining = |alive, asked| {
            let draining_at = Some(DateTime::UNIX_EPOCH);
            WorkerRecord { draining_at, ..worker(&[("mail", 4)], alive, asked) }
        };
        assert_eq!(draining(true, None).state_text(), "draining");
        assert!(!draining(true, None).claims());
        assert_eq!(draining(true, Some(Asked::Stop)).state_text(), "draining, asked to stop by anna");
        assert_eq!(draining(false, Some(Asked::Stop)).state_text(), "dead while draining");
    }

    #[test]
    fn a_pattern_serves_the_queues_that_fit_and_says_how_many_slots_each_has() {
        let worker = worker(&[("tenant-*", 4), ("*", 2), ("mail", 8)], true, None);
        let slots = |queue, set| worker.slots_of(queue, set);
        assert!(worker.serves("tenant-7") && worker.serves("anything"));
        assert_eq!(
            [slots("tenant-7", None), slots("mail", None), slots("anything", None)],
            [Some(4), Some(8), Some(2)]
        );
        assert_eq!(slots("tenant-7", Some(1)), Some(1), "an operator has set it for this queue");
        assert_eq!(worker.queues_text(&[]), "tenant-*=4, *=2, mail=8");
    }

    #[test]
    fn no_queue_has_more_slots_than_the_worker_in_all() {
        let worker = WorkerRecord { slots_total: Some(6), ..worker(&[("mail", 8), ("slow", 2)], true, None) };
        assert_eq!([worker.slots_of("mail", None), worker.slots_of("slow", None)], [Some(6), Some(2)]);
        assert_eq!([worker.slots_of("slow", Some(9)), worker.slots_of("other", None)], [Some(6), None]);
        assert_eq!(worker.queues_text(&[]), "mail=6, slow=2; at most 6 in all");
    }

    #[test]
    fn the_slots_are_those_that_apply_now() {
        let set = |name: &str, slots| QueueSettings { name: name.to_owned(), paused: None, slots };
        let mut worker = worker(&[("mail", 4), ("slow", 2)], true, None);
        let settings = [set("slow", Some(0)), set("mail", None), set("other", Some(9))];
        assert_eq!(worker.queues_text(&settings), "mail=4, slow=0");
        worker.slots.clear();
        assert_eq!(worker.queues_text(&settings), "mail, slow=0");
    }
}
