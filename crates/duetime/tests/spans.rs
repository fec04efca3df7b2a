//! Log records of a handler belong to its job.

use duetime::{Client, Worker};
use std::io::Write;
use std::sync::{Arc, Mutex};

/// The captured log output.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_handler_runs_in_the_span_of_its_job() {
    let log = Log::default();
    let written = log.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || written.clone()).finish();
    let _until_the_end = tracing::subscriber::set_default(subscriber);
    let client = Client::memory().await.unwrap();
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let traced = client.push_raw("mail", *b"1").queue("out").trace(trace).await.unwrap().id;
    let other = client.push_raw("mail", *b"2").queue("out").await.unwrap().id;
    let worker = Worker::new(&client).queue("out").fallback(|| async {
        tokio::task::yield_now().await;
        tracing::info!("at work");
        duetime::worker::Handled::Ok(())
    });
    assert_eq!(worker.drain().await.unwrap().succeeded, 2);
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| line.contains("at work")).collect();
    let ids = r#" trace_id="4bf92f3577b34da6a3ce929d0e0e4736""#;
    for (id, trace) in [(traced, ids), (other, "")] {
        let span = format!(r#"job{{queue="out" kind="mail" id={id} attempt=1{trace}}}: "#);
        assert!(lines.iter().any(|line| line.contains(&span)), "{span}: {text}");
    }
    client.close().await.unwrap();
}
