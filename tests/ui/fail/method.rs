use jobs::job;

struct Mailer;

impl Mailer {
    #[job]
    fn send(&self, to: String) {
        let _ = to;
    }
}

fn main() {
    Mailer.send("x".into());
}
