//! One run of a command: its process group, its pipes, its end.
//!
//! However the run ends, even if its future is dropped, no process of a run that was ended is left behind. A command that
//! ends by itself may leave others in the background; they lose their pipes.

use super::environment;
use super::tail::Tail;
use crate::cli::process_group::Group;
use crate::cli::program::Program;
use duetime_core::Payload;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio_util::task::AbortOnDropHandle;

/// Bytes kept of standard error.
const MESSAGE_BYTES: usize = 4 << 10;
/// Bytes read from a pipe at once: the capacity of a pipe on Linux.
const CHUNK_BYTES: usize = 64 << 10;
/// How long processes have to react to SIGTERM.
const HEED: Duration = Duration::from_secs(5);
/// How long pipes that background processes hold open are read after the command's end.
const GRACE: Duration = Duration::from_millis(500);

/// A command that runs.
pub(super) struct Process {
    child: Child,
    group: Group,
    _input: AbortOnDropHandle<()>,
    errors: Pipe,
    output: Option<Pipe>,
}

/// The result of a command.
pub(super) struct Exit {
    /// Its end.
    pub(super) status: ExitStatus,
    /// The end of its standard error.
    pub(super) message: String,
    /// Its standard output, if it was kept; `None` also if it was too long.
    pub(super) output: Option<Vec<u8>>,
}

impl Process {
    /// Starts it with the payload as its input. Standard output is kept up to this many bytes, or passed on.
    pub(super) fn start(
        program: &Program,
        environment: Vec<(&'static str, String)>,
        payload: Payload,
        output_bytes_max: Option<usize>,
    ) -> io::Result<Self> {
        let mut command = Command::new(&program.path);
        command.arg0(&program.name).args(&program.arguments).env_remove(environment::TRACE).envs(environment);
        command.stdin(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        command.stdout(if output_bytes_max.is_some() { Stdio::piped() } else { Stdio::inherit() });
        let mut child = command.spawn()?;
        let group = Group::of(&child)?;

        let mut stdin = child.stdin.take();
        let input = tokio::spawn(async move {
            // A command need not read its input: then the pipe breaks, and that is all.
            if let Some(stdin) = &mut stdin {
                let _ = stdin.write_all(&payload).await;
            }
        });
        let errors = child.stderr.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let output = output_bytes_max.zip(child.stdout.take());
        Ok(Self {
            child,
            group,
            _input: AbortOnDropHandle::new(input),
            errors: Pipe::read(errors, MESSAGE_BYTES, true),
            output: output.map(|(bytes_max, pipe)| Pipe::read(pipe, bytes_max, false)),
        })
    }

    /// Waits for its end. May be dropped and called again.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Ends the whole group: SIGTERM, then SIGKILL after 5 s.
    pub(super) async fn end(&mut self) -> io::Result<ExitStatus> {
        self.group.end(&mut self.child, HEED).await
    }

    /// The result, once the command has ended.
    pub(super) async fn ended(mut self, status: ExitStatus) -> Exit {
        self.group.over();
        let message = self.errors.finish().await.text();
        let output = match self.output {
            Some(pipe) => pipe.finish().await.whole(),
            None => None,
        };
        Exit { status, message, output }
    }
}

/// A pipe that is always read to its end, so that no process blocks on writing to it.
struct Pipe {
    kept: Arc<Mutex<Tail>>,
    reader: AbortOnDropHandle<()>,
}

impl Pipe {
    /// Reads a pipe, and keeps at most this many bytes of its end. With `passes_on` the output also goes to standard error.
    fn read(mut pipe: impl AsyncRead + Unpin + Send + 'static, bytes_max: usize, passes_on: bool) -> Self {
        let kept = Arc::new(Mutex::new(Tail::new(bytes_max)));
        let shared = kept.clone();
        let reader = tokio::spawn(async move {
            let mut chunk = vec![0; CHUNK_BYTES];
            while let Ok(length @ 1..) = pipe.read(&mut chunk).await {
                shared.lock().unwrap_or_else(PoisonError::into_inner).push(&chunk[..length]);
                if passes_on {
                    // If our standard error cannot be written, the command's is still kept.
                    let mut errors = tokio::io::stderr();
                    let _ = errors.write_all(&chunk[..length]).await;
                    // Else another thread may write it when this process has ended.
                    let _ = errors.flush().await;
                }
            }
        });
        Self { kept, reader: AbortOnDropHandle::new(reader) }
    }

    /// The output until the pipe closes, or until shortly after the command has ended.
    async fn finish(mut self) -> Tail {
        let _ = tokio::time::timeout(GRACE, &mut self.reader).await;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut kept, Tail::new(0))
    }
}

#[cfg(test)]
mod tests;
