//! Where the page goes.
//!
//! Promises: a page is whole or it is not there, and what it replaces stays until then; a trial
//! that fails leaves nothing behind. Refuses: a file that the trial reads, and standard output,
//! where the findings go. A pipe is written to as it is.

use std::fs::{self, File, FileType};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::STDIN;
use crate::cli::SimulateArgs;

/// Whether a page can be written there, as far as that can be known before.
pub(super) fn check(path: &Path, args: &SimulateArgs) -> Result<(), String> {
    refuse_inputs(path, args)?;
    if is_stdout(path) {
        return Err("--report needs a file of its own: what was found is printed on standard \
                    output"
            .to_owned());
    }
    can_be_written(path).map_err(|why| cannot(path, &why))
}

/// Writes it.
pub(super) fn write(path: &Path, page: &str) -> Result<(), String> {
    written(path, page).map_err(|why| cannot(path, &why))
}

/// Refuses to write over what is read.
pub(super) fn refuse_inputs(path: &Path, args: &SimulateArgs) -> Result<(), String> {
    let Ok(place) = fs::canonicalize(path) else { return Ok(()) };
    let settings = [&args.policy.policy, &args.policy.against, &args.topology];
    let mut read = args.files.iter().chain(settings.into_iter().flatten());
    // A name of its own for the same file is no matter: the page gets a new file.
    match read.find(|it| fs::canonicalize(it).is_ok_and(|it| it == place)) {
        Some(it) => Err(format!("{} is read: write to another file", it.display())),
        None => Ok(()),
    }
}

fn cannot(path: &Path, why: &io::Error) -> String {
    format!("cannot write {}: {why}", path.display())
}

/// What is there, if something is.
fn kind(path: &Path) -> io::Result<Option<FileType>> {
    match fs::metadata(path) {
        Ok(about) => Ok(Some(about.file_type())),
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(why) => Err(why),
    }
}

fn can_be_written(path: &Path) -> io::Result<()> {
    match kind(path)? {
        Some(kind) if kind.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
        // Whoever reads a pipe would take it for the end if it were opened now.
        Some(kind) if !kind.is_file() => return Ok(()),
        Some(_) => drop(File::options().write(true).open(path)?),
        None => {}
    }
    let (part, _) = beside(path)?;
    File::create(&part)?;
    fs::remove_file(&part)
}

fn written(path: &Path, page: &str) -> io::Result<()> {
    if kind(path)?.is_some_and(|kind| !kind.is_file()) {
        return File::options().write(true).open(path)?.write_all(page.as_bytes());
    }
    let (part, place) = beside(path)?;
    let done = fs::write(&part, page).and_then(|()| {
        if let Ok(before) = fs::metadata(&place) {
            fs::set_permissions(&part, before.permissions())?;
        }
        fs::rename(&part, &place)
    });
    if done.is_err() {
        let _ = fs::remove_file(&part);
    }
    done
}

/// Where it is written first, and where it belongs: what a link leads to, not the link.
fn beside(path: &Path) -> io::Result<(PathBuf, PathBuf)> {
    let place = match fs::canonicalize(path) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => path.to_owned(),
        found => found?,
    };
    let name = place.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
    // Two trials at once do not write into one file.
    let part = place.with_file_name(format!(".{name}.{}.part", std::process::id()));
    Ok((part, place))
}

/// Whether the findings go there, too. Nobody minds a page on a terminal, or thrown away.
fn is_stdout(path: &Path) -> bool {
    if path.as_os_str() == STDIN {
        return true;
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::{FileTypeExt, MetadataExt};

        let here = fs::metadata("/dev/stdout").ok();
        let Some((there, here)) = fs::metadata(path).ok().zip(here) else { return false };
        let is_same = (there.dev(), there.ino()) == (here.dev(), here.ino());
        is_same && !there.file_type().is_char_device()
    }
    #[cfg(not(unix))]
    false
}
