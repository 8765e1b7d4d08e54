//! S2: a record, beside OpenSSL and rustls's own buffers.
//!
//! All decrypt records of the same server in memory, one record a read. OpenSSL as its documentation
//! advises for many small records: `SSL_set_read_ahead`, so that a record is one read and not two.

use std::hint::black_box;
use std::io::Read;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{anyhow, ensure};
use openssl::ssl::{Ssl, SslContext, SslMethod, SslStream, SslVerifyMode, SslVersion};
use quietcore_feed::tls::{RecordPath, Tls};
use rustls::ClientConnection;

use crate::pipe::{Ends, Pipe, name};
use crate::turns::{Row, Side, Target, take_turns};

/// Records of a turn.
const TURN: usize = 64;

/// Rows for three sizes of a record.
pub fn rows(ends: &Ends, rounds: usize) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (size, shown, target) in [
        (200, "S2 TLS, 200 B", Target::None),
        (1_024, "S2 TLS, 1 KiB", Target::Ratio(0.50)),
        (4_096, "S2 TLS, 4 KiB", Target::None),
    ] {
        let plain: Vec<u8> = (0..size).map(|byte| (byte % 251) as u8).collect();
        let mut sides = [ours(ends, &plain)?, openssl(ends, &plain)?, rustls(ends, &plain)?];
        let times = take_turns(rounds, &mut sides)?;
        rows.push(Row::of(shown, &times[0], "OpenSSL 3", &times[1], target));
        rows.push(Row::of(shown, &times[0], "rustls, buffered", &times[2], Target::None));
    }
    Ok(rows)
}

/// Times reading a turn's records. `read` hands all plaintext of one piece to what it is given.
fn turn<S>(
    stream: &mut S,
    pipe: impl Fn(&mut S) -> &mut Pipe,
    plain: &[u8],
    mut read: impl FnMut(&mut S, &mut dyn FnMut(&[u8])) -> anyhow::Result<()>,
) -> anyhow::Result<f64> {
    for _ in 0..TURN {
        pipe(stream).seal(plain)?;
    }
    let (mut bytes, mut wrong) = (0, 0);
    let start = Instant::now();
    while bytes < TURN * plain.len() {
        read(stream, &mut |piece| {
            bytes += piece.len();
            wrong += usize::from(black_box(piece).last() != plain.last());
        })?;
    }
    let took = start.elapsed().as_nanos() as f64;
    ensure!(bytes == TURN * plain.len() && wrong == 0, "a record is not what was sealed");
    Ok(took / TURN as f64)
}

fn ours<'a>(ends: &Ends, plain: &'a [u8]) -> anyhow::Result<Side<'a>> {
    let mut pipe = ends.pipe()?;
    let tls = Tls::connect(&mut pipe, name()?, Arc::clone(&ends.client), RecordPath::Own)?;
    let mut both = (pipe, tls);
    Ok(Box::new(move || {
        turn(
            &mut both,
            |(pipe, _)| pipe,
            plain,
            |(pipe, tls), each| {
                let count = pipe.read(tls.space())?;
                tls.filled(count);
                while let Some(piece) = tls.next()? {
                    each(piece);
                }
                Ok(())
            },
        )
    }))
}

fn openssl<'a>(ends: &Ends, plain: &'a [u8]) -> anyhow::Result<Side<'a>> {
    let mut context = SslContext::builder(SslMethod::tls_client())?;
    context.set_min_proto_version(Some(SslVersion::TLS1_3))?;
    context.set_verify(SslVerifyMode::NONE);
    context.set_read_ahead(true);
    let ssl = Ssl::new(&context.build())?;
    let mut stream: SslStream<Pipe> =
        ssl.connect(ends.pipe()?).map_err(|error| anyhow!("OpenSSL: {error}"))?;
    let mut buffer = vec![0; 16 << 10];
    Ok(Box::new(move || {
        turn(&mut stream, SslStream::get_mut, plain, |stream, each| {
            let count = stream.ssl_read(&mut buffer)?;
            each(&buffer[..count]);
            Ok(())
        })
    }))
}

fn rustls<'a>(ends: &Ends, plain: &'a [u8]) -> anyhow::Result<Side<'a>> {
    let mut pipe = ends.pipe()?;
    let mut connection = ClientConnection::new(Arc::clone(&ends.client), name()?)?;
    while connection.is_handshaking() {
        connection.complete_io(&mut pipe)?;
    }
    let mut buffer = vec![0; 16 << 10];
    let mut both = (pipe, connection);
    Ok(Box::new(move || {
        turn(
            &mut both,
            |(pipe, _)| pipe,
            plain,
            |(pipe, connection), each| {
                connection.read_tls(pipe)?;
                let waiting = connection.process_new_packets()?.plaintext_bytes_to_read();
                if waiting > 0 {
                    let count = connection.reader().read(&mut buffer)?;
                    each(&buffer[..count]);
                }
                Ok(())
            },
        )
    }))
}
