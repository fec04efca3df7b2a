//! Copies of the running program, which start at the same time, and their output.

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// The time limit for the next output.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// The address with a namespace of this run only, so that other data in this Redis stays unchanged.
pub(crate) fn own_namespace(url: &str, name: &str) -> Result<String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
    let joint = if url.contains('?') { '&' } else { '?' };
    Ok(format!("{url}{joint}namespace={name}-{now}-{}", std::process::id()))
}

/// Processes of this program.
pub(crate) struct Processes {
    children: Vec<Child>,
    lines: Receiver<(usize, std::io::Result<String>)>,
}

impl Processes {
    /// Starts this many copies with these arguments and the copy's number, and lets all of them go once all are ready.
    pub(crate) fn start(count: usize, arguments: &[&str]) -> Result<Self> {
        let (sender, lines) = channel();
        let mut children = Vec::new();
        for number in 0..count {
            let mut command = Command::new(std::env::current_exe()?);
            command.args(arguments).arg(number.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = command.spawn()?;
            let said = BufReader::new(child.stdout.take().ok_or("a copy without an output")?).lines();
            let sender = sender.clone();
            // Nobody reads any longer if the program is about to end.
            std::thread::spawn(move || said.for_each(|line| drop(sender.send((number, line)))));
            children.push(child);
        }
        let mut processes = Self { children, lines };
        for _ in 0..count {
            let (number, line) = processes.hear()?.ok_or("all copies have ended at once")?;
            if line != "ready" {
                return Err(format!("copy {number} says {line}").into());
            }
        }
        for child in &mut processes.children {
            child.stdin.as_mut().ok_or("a copy without an input")?.write_all(b"go\n")?;
        }
        Ok(processes)
    }

    /// The next line and its process; `None` once all have ended.
    pub(crate) fn hear(&self) -> Result<Option<(usize, String)>> {
        match self.lines.recv_timeout(SILENCE_MAX) {
            Ok((number, line)) => Ok(Some((number, line?))),
            Err(RecvTimeoutError::Disconnected) => Ok(None),
            Err(RecvTimeoutError::Timeout) => Err(format!("nothing was said for {SILENCE_MAX:?}").into()),
        }
    }

    /// Tells all to end, and returns their remaining output.
    pub(crate) fn finish(mut self) -> Result<Vec<(usize, String)>> {
        self.children.iter_mut().for_each(|child| drop(child.stdin.take()));
        let mut said = Vec::new();
        while let Some(line) = self.hear()? {
            said.push(line);
        }
        for mut child in self.children {
            let status = child.wait()?;
            if !status.success() {
                return Err(format!("a copy ended with {status}").into());
            }
        }
        Ok(said)
    }
}

/// Run by a copy: reports that it is ready, and waits until all are.
pub(crate) fn ready() -> Result<()> {
    println!("ready");
    std::io::stdin().lines().next().ok_or("the program that started this one has gone")??;
    Ok(())
}
