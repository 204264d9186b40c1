//! A restore that takes longer than the group waits for a silent member.

use std::time::{Duration, Instant};

use super::state::{assert_all_counted, start, start_in, write_keys};
use crate::harness::process::Process;
use crate::harness::room::Room;
use crate::harness::transaction::Transaction;
use crate::harness::wait::{PATIENCE, wait_until};

const PARTITIONS: i32 = 6;
const KEYS: u64 = 3000;
/// The example's: a member that is not heard of for so long is expelled.
const SESSION: Duration = Duration::from_secs(6);

/// Somebody's transaction is open in the middle of the changelog, so that each restore reads what is before it and waits for the rest.
/// Members come and go, each time when all tasks have come so far again, and then the wait outlasts the session. There is no rebalance
/// but theirs, nobody reads again what it has read of a task that it keeps, and every record is counted once.
pub(super) fn a_restore_that_outlasts_the_session_settles_while_members_come_and_go(room: &Room) {
    let (input, output) = (room.topic("in", PARTITIONS), room.topic("out", PARTITIONS));
    let group = room.cluster().group(&room.group());
    let (before, pin) = fill_changelog(room, &input, &output);
    write_keys(room, &input, 2 * KEYS, KEYS);
    let counted = group.progress(&[&input]);
    let changes = room.number(4, 10);
    let (mut members, mut gone): (Vec<(usize, Process)>, Vec<Process>) = (Vec::new(), Vec::new());
    for change in 0..changes {
        if change < 3 || change % 2 == 0 {
            members.push((change, start(room, &input, &output)));
        } else {
            let (_, mut oldest) = members.remove(0);
            match change % 4 {
                3 => oldest.stop_cleanly(),
                _ => assert!(oldest.kill(), "it was there to be killed"),
            }
            gone.push(oldest);
        }
        group.wait_members(&vec![PARTITIONS as usize / members.len(); members.len()], PATIENCE);
        wait_until("every task waits for what is behind the transaction", PATIENCE, || {
            // The line of this change's assignment may come behind the assignment.
            let is_assigned = |(since, member): &(usize, Process)| assignments(member).len() > change - since;
            members.iter().all(|member| is_assigned(member) && waits_with_all_tasks(room, &member.1))
        });
    }
    let waiting = Instant::now();
    // The fault is the time itself.
    wait_until("the wait outlasts the session", PATIENCE, || waiting.elapsed() > SESSION);
    assert_eq!(group.progress(&[&input]), counted, "nothing is counted without its state");
    pin.abort();
    group.wait_drained(&[&input], PATIENCE);
    assert_all_counted(room, &output, KEYS, 3);
    assert!(gone.iter().all(|process| restores(process).is_empty()), "they went before they had a state");
    let resumed: usize = members.iter().map(|(_, member)| assert_restored_once(member, &before)).sum();
    assert!(resumed > 0, "some tasks stayed where they were");
    for (since, member) in &members {
        assert_eq!(assignments(member).len(), changes - since, "rebalances since it came: {}", member.stderr());
    }
    members.iter_mut().for_each(|(_, member)| member.stop_cleanly());
}

/// Asked to end, and killed, half way: what is on disk says how far it reaches, and the rest is read once.
pub(super) fn a_restore_to_disk_that_is_interrupted_goes_on_where_it_was(room: &Room) {
    let (input, output) = (room.topic("in", PARTITIONS), room.topic("out", PARTITIONS));
    let group = room.cluster().group(&room.group());
    let (before, pin) = fill_changelog(room, &input, &output);
    write_keys(room, &input, 2 * KEYS, KEYS);
    let half_way = || {
        let process = start_in(room, &input, &output, "state");
        wait_until("every task is half way", PATIENCE, || waits_with_all_tasks(room, &process));
        process
    };
    half_way().stop_cleanly();
    assert!(half_way().kill(), "it was there to be killed");
    let mut process = half_way();
    pin.abort();
    group.wait_drained(&[&input], PATIENCE);
    assert_all_counted(room, &output, KEYS, 3);
    for Restore { task, records, .. } in restores(&process) {
        assert_eq!(records, before[task], "task {task} reads what is behind the transaction, and no more");
    }
    assert!(!process.says(&["is wiped"]), "log: {}", process.stderr());
    process.stop_cleanly();
}

/// Counts [`KEYS`] twice, and opens a transaction in the changelog in between. Returns how many records are before it in each
/// partition; so many are behind it.
fn fill_changelog(room: &Room, input: &str, output: &str) -> (Vec<u64>, Transaction) {
    let group = room.cluster().group(&room.group());
    write_keys(room, input, 0, KEYS);
    let mut process = start(room, input, output);
    group.wait_drained(&[input], PATIENCE);
    let before = group.committed(input).into_iter().map(|at| at.expect("a position") as u64).collect();
    let pin = Transaction::open(&room.broker().address(), &room.name("foreign"));
    for partition in 0..PARTITIONS {
        pin.write(&format!("{}-changelog", room.group()), partition, [("foreign", "1".to_owned())]);
    }
    write_keys(room, input, KEYS, KEYS);
    group.wait_drained(&[input], PATIENCE);
    process.stop_cleanly();
    (before, pin)
}

/// The tasks of each assignment that a process has had.
fn assignments(process: &Process) -> Vec<Vec<usize>> {
    let log = process.stderr();
    let lines = log.lines().filter_map(|line| line.split_once("was assigned tasks ")?.1.split_once(" stream="));
    lines.map(|(tasks, _)| tasks.split(", ").map(|task| task.parse().expect("a number")).collect()).collect()
}

/// Whether each task of its last assignment has said since then that it waits.
fn waits_with_all_tasks(room: &Room, process: &Process) -> bool {
    let (assignments, log) = (assignments(process), process.stderr());
    let Some((tasks, (_, since))) = assignments.last().zip(log.rsplit_once("was assigned tasks ")) else { return false };
    let waits = |task: &usize| format!("waits for {}-changelog/{task}: a transaction is open", room.group());
    tasks.iter().all(|task| since.contains(&waits(task)))
}

/// Each task has its state after its last assignment and not before, with what is behind the transaction alone where the process had it
/// already. Returns how many it had.
fn assert_restored_once(process: &Process, before: &[u64]) -> usize {
    let (assignments, mut restores) = (assignments(process), restores(process));
    restores.sort_unstable_by_key(|restore| restore.task);
    let tasks = assignments.last().expect("it has tasks");
    assert_eq!(restores.iter().map(|restore| restore.task).collect::<Vec<_>>(), *tasks, "log: {}", process.stderr());
    let kept = |task| assignments.iter().rev().nth(1).is_some_and(|tasks| tasks.contains(&task));
    for Restore { task, records, took } in &restores {
        assert!(*took > SESSION, "task {task}: {took:?}");
        let all = 2 * before[*task];
        let unread = if kept(*task) { all / 2..=all / 2 } else { all / 2..=all };
        assert!(unread.contains(records), "task {task}: {records} records, of which {unread:?} were to be read");
    }
    tasks.iter().filter(|task| kept(**task)).count()
}

/// A restore that a process has brought to its end.
#[derive(Debug)]
pub(super) struct Restore {
    pub(super) task: usize,
    /// Read from the changelog by it.
    pub(super) records: u64,
    pub(super) took: Duration,
}

/// Those of a process, in the order in which they ended.
pub(super) fn restores(process: &Process) -> Vec<Restore> {
    let log = process.stderr();
    let number = |line: &str, before: &str| -> u64 {
        let text = line.split_once(before).expect("it is said").1.split(' ').next().expect("a word");
        text.parse().expect("a number")
    };
    let lines = log.lines().filter(|line| line.contains("has its state from"));
    lines
        .map(|line| Restore {
            task: number(line, "task ") as usize,
            records: number(line, "records="),
            took: Duration::from_millis(number(line, "took_ms=")),
        })
        .collect()
}
