use diesel_jobs::job;

struct Mailer;

impl Mailer {
    #[job]
    fn send(&self, to: String) {
        let _ = to;
    }

    #[job]
    async fn send_later(to: String) {
        let _ = to;
    }

    #[job]
    fn copy(mailer: Self) {
        let _ = mailer;
    }
}

trait Letters {
    #[job(max_attempts = 3)]
    fn write(text: &str) {
        let _ = text;
    }
}

fn main() {
    #[job]
    fn write() {}
    write();
}
