//! Mutilates inputs.

/// A seeded generator (xorshift64*): the same seed makes the same inputs on every machine.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.max(1))
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() >> 33).unwrap_or(0) % limit.max(1)
    }
}

/// Texts that break parsers: borders of integers, separators of the kernel's formats, nesting.
const POISON: &[&[u8]] = &[
    b"-1",
    b"0",
    b"18446744073709551615",
    b"18446744073709551616",
    b"9223372036854775808",
    b"1e999",
    b"NaN",
    b",",
    b"-",
    b":",
    b"/",
    b"=",
    b"\"",
    b"\\",
    b"\n\n",
    b"\0",
    b"\xff\xfe",
    b" ",
    b"[",
    b"{",
    b"(",
    b")",
    b"N",
    b"all",
    b"0-18446744073709551615",
    b"0-16383:1/1",
    b"ffffffff,",
    b"null",
    b"{\"error\":\"x\"}",
    b"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
    "é\u{202e}".as_bytes(),
];

/// One of the seeds with one to eight changes.
pub fn mutilate(seeds: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut input = pick(seeds, random).clone();
    for _ in 0..=random.below(8) {
        let at = random.below(input.len() + 1);
        let end = at + random.below(input.len() + 1 - at).min(64);
        match random.below(7) {
            0 => input.truncate(at),
            1 => drop(input.drain(at..end)),
            2 => drop(input.splice(at..at, random.next().to_le_bytes())),
            3 => drop(input.splice(at..end, POISON[random.below(POISON.len())].iter().copied())),
            4 => {
                let copy = input[at..end].to_vec();
                drop(input.splice(end..end, copy));
            }
            5 => {
                let other = pick(seeds, random);
                let from = random.below(other.len() + 1);
                let until = from + random.below(other.len() + 1 - from).min(64);
                drop(input.splice(at..at, other[from..until].iter().copied()));
            }
            _ => {
                if let Some(byte) = input.get_mut(at) {
                    *byte ^= 1 << random.below(8);
                }
            }
        }
    }
    input
}

fn pick<'a>(seeds: &'a [Vec<u8>], random: &mut Random) -> &'a Vec<u8> {
    &seeds[random.below(seeds.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_inputs_and_they_differ_from_the_seeds() {
        let seeds = vec![b"0,2-5\n".to_vec(), b"ff,ffffffff".to_vec()];
        let inputs = |seed| {
            let mut random = Random::new(seed);
            (0..100).map(|_| mutilate(&seeds, &mut random)).collect::<Vec<_>>()
        };
        assert_eq!(inputs(7), inputs(7));
        let changed = inputs(7).iter().filter(|input| !seeds.contains(input)).count();
        assert!(changed > 80, "{changed}");
    }
}
