use diesel_jobs::Job;

#[derive(serde::Serialize, serde::Deserialize, Job)]
struct Generic<T> {
    to: T,
}

#[derive(Job)]
union Either {
    one: u8,
    other: i8,
}

fn main() {}
