//! A child process: started, watched, measured, stopped.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, SysconfVar, sysconf};

use crate::Result;
use crate::scratch::Scratch;

/// Time for a clean stop.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running process. Dropping it kills it.
pub(crate) struct Process {
    name: String,
    child: Child,
    pid_file: PathBuf,
    log: PathBuf,
}

/// What a process has used since its start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    /// User and system time of all its threads.
    pub(crate) cpu: Duration,
    /// Most memory that was resident, in bytes.
    pub(crate) peak: u64,
}

/// What a process has now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Footprint {
    pub(crate) threads: u64,
    /// Open file descriptors.
    pub(crate) descriptors: usize,
    /// Memory that is resident, in bytes.
    pub(crate) resident: u64,
}

impl Process {
    /// Starts `command`; what it prints goes to a file.
    pub(crate) fn spawn(scratch: &Scratch, name: &str, mut command: Command) -> Result<Self> {
        let log = scratch.file(&format!("{name}.log"));
        let output = fs::File::create(&log)?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let program = command.get_program().to_string_lossy().into_owned();
        let child = command.spawn().map_err(|error| format!("{program} does not start: {error}"))?;
        let pid_file = scratch.file(&format!("{name}.pid"));
        let process = Process { name: name.to_owned(), child, pid_file, log };
        fs::write(&process.pid_file, process.child.id().to_string())?;
        Ok(process)
    }

    /// An error if it has ended.
    pub(crate) fn check(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => Err(format!("{} ended ({status}): {}", self.name, self.tail()).into()),
        }
    }

    /// Until now.
    pub(crate) fn usage(&self) -> Result<Usage> {
        Usage::of(&self.child.id().to_string())
    }

    /// At this moment.
    pub(crate) fn footprint(&self) -> Result<Footprint> {
        let pid = self.child.id();
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd"))?.count();
        Ok(Footprint { threads: field(&status, "Threads")?, descriptors, resident: field(&status, "VmRSS")? * 1024 })
    }

    /// What it has printed so far.
    pub(crate) fn printed(&self) -> Result<String> {
        Ok(String::from_utf8_lossy(&fs::read(&self.log)?).into_owned())
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill(Pid::from_raw(i32::try_from(self.child.id())?), signal)?)
    }

    /// SIGTERM, and SIGKILL where that does not help. Returns what it has printed.
    pub(crate) fn stop(mut self) -> Result<String> {
        self.check()?;
        self.signal(Signal::SIGTERM)?;
        let deadline = Instant::now() + PATIENCE;
        while self.child.try_wait()?.is_none() {
            if Instant::now() > deadline {
                return Err(format!("{} does not end after SIGTERM: {}", self.name, self.tail()).into());
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(fs::read_to_string(&self.log)?)
    }

    /// Waits for an end with success. Returns what it has printed.
    pub(crate) fn finish(mut self) -> Result<String> {
        let status = self.child.wait()?;
        if !status.success() {
            return Err(format!("{} failed ({status}): {}", self.name, self.tail()).into());
        }
        Ok(fs::read_to_string(&self.log)?)
    }

    /// The end of what it has printed.
    fn tail(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_else(|error| format!("its log cannot be read: {error}"));
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(5)..].join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // An error says that it has ended already.
        self.child.kill().unwrap_or_default();
        if let Err(error) = self.child.wait().and_then(|_| fs::remove_file(&self.pid_file)) {
            eprintln!("{} is not cleared away: {error}", self.name);
        }
    }
}

impl Usage {
    /// Of a process; `self` is this one.
    pub(crate) fn of(pid: &str) -> Result<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let ticks_a_second = sysconf(SysconfVar::CLK_TCK)?.ok_or("the system does not tell its clock ticks")?;
        let cpu = cpu_ticks(&stat).ok_or("/proc/PID/stat has no times")? as f64 / ticks_a_second as f64;
        let peak = field(&status, "VmHWM")? * 1024;
        Ok(Usage { cpu: Duration::from_secs_f64(cpu), peak })
    }
}

/// Fields 14 and 15. The second field, the name, may hold anything.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, behind_name) = stat.rsplit_once(')')?;
    let mut fields = behind_name.split_whitespace().skip(11);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

/// A number in `/proc/PID/status`; memory is in kilobytes.
fn field(status: &str, name: &str) -> Result<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.ok_or_else(|| format!("/proc/PID/status has no {name}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_behind_any_name() {
        let stat = "42 (a) b 3) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0 1 0 100";
        assert_eq!(cpu_ticks(stat), Some(300));
    }

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let status = "VmPeak:\t 9 kB\nVmHWM:\t  1234 kB\nThreads:\t5\n";
        assert_eq!(field(status, "VmHWM").ok(), Some(1234));
        assert_eq!(field(status, "Threads").ok(), Some(5));
        assert!(field(status, "VmRSS").is_err());
    }
}
