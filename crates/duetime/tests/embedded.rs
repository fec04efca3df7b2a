//! The cases on a store in this process.

use duetime::Client;

client_cases!((Client::memory().await.unwrap(), ()));
