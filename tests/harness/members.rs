//! The members of a group of the protocol `consumer`, by hand: the client library's safe calls know those of the classic one alone.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(10);
/// ConsumerGroupDescribe and its version.
const API: [i16; 2] = [69, 0];

/// How many partitions each member has; `None` while the group is not stable, or is no group of this protocol. An error also where the
/// broker does not know the request.
pub(super) fn of(address: &str, group: &str) -> io::Result<Option<Vec<usize>>> {
    let name = u8::try_from(group.len() + 1).map_err(io::Error::other)?;
    let (api, client) = (API.map(i16::to_be_bytes).concat(), [0, 4, b't', b'e', b's', b't', 0]);
    let body = [&[2, name][..], group.as_bytes(), &[0, 0]].concat();
    let request = [&api, &7_i32.to_be_bytes()[..], &client, &body].concat();
    let mut connection = TcpStream::connect(address)?;
    connection.set_read_timeout(Some(TIMEOUT))?;
    let length = u32::try_from(request.len()).map_err(io::Error::other)?;
    connection.write_all(&[&length.to_be_bytes()[..], &request].concat())?;
    let mut length = [0; 4];
    connection.read_exact(&mut length)?;
    let mut answer = vec![0; u32::from_be_bytes(length) as usize];
    connection.read_exact(&mut answer)?;
    let mut answer = Answer(&answer);
    answer.skip(4 + 1 + 4); // the request's number, no tags, how long to wait
    assert_eq!(answer.length(), 1, "one group");
    Ok(answer.group())
}

/// What is left of an answer, in the encoding of flexible versions.
struct Answer<'a>(&'a [u8]);

impl<'a> Answer<'a> {
    fn skip(&mut self, bytes: usize) -> &'a [u8] {
        let (head, tail) = self.0.split_at(bytes);
        self.0 = tail;
        head
    }

    /// Of an array or a text; null counts as empty.
    fn length(&mut self) -> usize {
        let (mut number, mut shift) = (0, 0);
        loop {
            let byte = usize::from(self.skip(1)[0]);
            number |= (byte & 127) << shift;
            shift += 7;
            if byte < 128 {
                return number.saturating_sub(1);
            }
        }
    }

    fn text(&mut self) -> &'a [u8] {
        let length = self.length();
        self.skip(length)
    }

    fn group(&mut self) -> Option<Vec<usize>> {
        let fine = self.skip(2) == [0, 0];
        (self.text(), self.text()); // what is wrong, the group's name
        let stable = self.text() == b"Stable";
        self.skip(4 + 4); // epochs
        self.text(); // the assignor
        let members = (0..self.length()).map(|_| self.member()).collect();
        (fine && stable).then_some(members)
    }

    fn member(&mut self) -> usize {
        (self.text(), self.text(), self.text()); // member, instance, rack
        self.skip(4); // the epoch
        (self.text(), self.text()); // client, host
        for _ in 0..self.length() {
            self.text(); // a topic
        }
        self.text(); // a pattern
        let assigned = self.assignment();
        self.assignment(); // what the coordinator wants
        self.skip(1); // no tags
        assigned
    }

    fn assignment(&mut self) -> usize {
        let mut total = 0;
        for _ in 0..self.length() {
            self.skip(16); // the topic's id
            self.text(); // the topic
            let partitions = self.length();
            self.skip(4 * partitions + 1);
            total += partitions;
        }
        self.skip(1);
        total
    }
}
