//! The cases on a store in this process.
#![cfg(feature = "embedded")]

#[macro_use]
mod cases;

use duetime::Client;

client_cases!((Client::memory().await.unwrap(), ()));
