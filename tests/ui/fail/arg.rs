use diesel_jobs::prelude::*;

#[job]
fn misspelt(#[arg(secert)] token: String) {}

#[job]
fn unknown(#[arg(colour)] token: String) {}

#[job]
fn bare(#[arg] token: String) {}

#[job]
fn clocked(#[arg(secret)] State(clock): State<u32>) {}

#[derive(serde::Serialize, serde::Deserialize, Job)]
struct Renamed {
    #[arg(secret)]
    #[serde(rename = "t")]
    token: String,
}

#[derive(serde::Serialize, serde::Deserialize, Job)]
struct Unnamed(#[arg(secret)] String);

fn main() {}
