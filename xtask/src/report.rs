//! The course of a chore: announces each step, times it, and sums up at the end.
//!
//! A failed step does not stop the next one, so that one run shows everything that is wrong. Only if nothing after it could
//! work ([`Report::needed_step`]), the rest are skipped, and listed as such.

use std::time::{Duration, Instant};

/// The number of tests that a step ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

/// The outcome of a step.
pub(crate) struct Outcome {
    pub(crate) tally: Tally,
    pub(crate) result: Result<(), String>,
}

impl From<Result<(), String>> for Outcome {
    fn from(result: Result<(), String>) -> Self {
        Self { tally: Tally::default(), result }
    }
}

enum End {
    Passed,
    Failed(String),
    Skipped,
}

struct Step {
    name: &'static str,
    took: Duration,
    end: End,
}

/// The steps run so far.
pub(crate) struct Report {
    begun: Instant,
    steps: Vec<Step>,
    tally: Tally,
    blocked: bool,
}

impl Report {
    pub(crate) fn begin() -> Self {
        Self { begun: Instant::now(), steps: Vec::new(), tally: Tally::default(), blocked: false }
    }

    /// Runs a step, unless a needed one has failed.
    pub(crate) fn step<O: Into<Outcome>>(&mut self, name: &'static str, work: impl FnOnce() -> O) {
        if self.blocked {
            self.steps.push(Step { name, took: Duration::ZERO, end: End::Skipped });
            return;
        }
        println!("\n==> {name}");
        let begun = Instant::now();
        let outcome = work().into();
        let took = begun.elapsed();
        self.tally += outcome.tally;
        let end = match outcome.result {
            Ok(()) => End::Passed,
            Err(error) => {
                println!("error: {error}");
                // A step without its own tests, or that ended before it ran one, still shows in the count.
                self.tally.failed += u64::from(outcome.tally.failed == 0);
                End::Failed(error)
            }
        };
        println!(
            "<== {name}: {}, {:.1} s",
            if matches!(end, End::Passed) { "ok" } else { "FAILED" },
            took.as_secs_f64()
        );
        self.steps.push(Step { name, took, end });
    }

    /// Runs a step without which the rest makes no sense.
    pub(crate) fn needed_step<O: Into<Outcome>>(&mut self, name: &'static str, work: impl FnOnce() -> O) {
        self.step(name, work);
        self.blocked |= !matches!(self.steps.last(), Some(Step { end: End::Passed, .. }));
    }

    /// Prints each step with its time, and returns whether all have passed.
    pub(crate) fn finish(&self, chore: &str) -> bool {
        println!("\n{chore}, {:.1} s in all:", self.begun.elapsed().as_secs_f64());
        for step in &self.steps {
            println!("{}", line(step));
        }
        self.passed()
    }

    /// The tests of all steps; a failed step that counted no failed test counts as one.
    pub(crate) fn tally(&self) -> Tally {
        self.tally
    }

    fn passed(&self) -> bool {
        self.steps.iter().all(|step| matches!(step.end, End::Passed))
    }
}

fn line(step: &Step) -> String {
    let (word, error) = match &step.end {
        End::Passed => ("ok", ""),
        End::Failed(error) => ("FAILED", error.as_str()),
        End::Skipped => ("skipped", ""),
    };
    format!("  {word:<8}{:<24}{:>7.1} s  {error}", step.name, step.took.as_secs_f64()).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(passed: u64, failed: u64, result: Result<(), String>) -> Outcome {
        Outcome { tally: Tally { passed, failed }, result }
    }

    #[test]
    fn all_steps_run_and_one_failure_fails_the_chore() {
        let mut report = Report::begin();
        report.step("first", || counted(2, 1, Err("one test failed".into())));
        report.step("second", || counted(3, 0, Ok(())));
        assert_eq!(report.tally(), Tally { passed: 5, failed: 1 });
        assert!(!report.finish("test"));
    }

    #[test]
    fn a_failed_step_without_tests_counts_as_one() {
        let mut report = Report::begin();
        report.step("build", || Outcome::from(Err("no compiler".to_owned())));
        assert_eq!(report.tally(), Tally { passed: 0, failed: 1 });
    }

    #[test]
    fn after_a_failed_needed_step_nothing_runs() {
        let mut report = Report::begin();
        report.needed_step("build", || Outcome::from(Err("no compiler".to_owned())));
        report.step("tests", || -> Outcome { unreachable!("the build failed") });
        assert!(!report.finish("test"));
    }

    #[test]
    fn steps_that_pass_pass() {
        let mut report = Report::begin();
        report.needed_step("build", || Ok(()));
        report.step("tests", || counted(1, 0, Ok(())));
        assert!(report.finish("test"));
    }
}
