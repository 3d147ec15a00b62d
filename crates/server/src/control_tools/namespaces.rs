//! `tidegate namespace`.

use tidegate::{Consistency, Outage};
use tidegate_stores::control::{Change, Mode, NamespaceRow};

use super::{Control, ControlToolError, Done, Making, missing, run, show, workspace_id};
use crate::cli::{
    ConsistencyArg, InWorkspace, ModeArg, NamespaceArgs, NamespaceCommand, NamespaceSetArgs,
    OutageArg,
};

/// `tidegate namespace`: lists namespaces and says what they do. The [module](super) has an
/// example.
///
/// # Errors
/// What was wrong: the address, the database, the workspace or the name.
pub fn namespace(command: &NamespaceCommand) -> Done {
    run(async {
        match command {
            NamespaceCommand::List(args) => list(args).await,
            NamespaceCommand::Set(args) => change(&args.which, |id| set(args, id)).await,
            NamespaceCommand::Delete(args) => {
                change(args, |id| Change::DeleteNamespace { id }).await
            }
            NamespaceCommand::Restore(args) => {
                change(args, |id| Change::RestoreNamespace { id }).await
            }
        }
    })
}

/// What was said of a namespace.
fn set(args: &NamespaceSetArgs, id: String) -> Change {
    let mode = args.mode.map(|mode| match mode {
        ModeArg::Enforce => Mode::Enforce,
        ModeArg::Shadow => Mode::Shadow,
        ModeArg::Off => Mode::Off,
    });
    let consistency = args.consistency.map(|said| match said {
        ConsistencyArg::Fast => Some(Consistency::Fast),
        ConsistencyArg::Bounded => Some(Consistency::Bounded),
        ConsistencyArg::Default => None,
    });
    let outage = args.outage.map(|said| match said {
        OutageArg::Local => Some(Outage::Local),
        OutageArg::Deny => Some(Outage::Deny),
        OutageArg::Default => None,
    });
    Change::SetNamespace { id, mode, consistency, outage }
}

/// The namespaces of the workspace that was said, by name.
async fn all(control: &Control, args: &InWorkspace) -> Result<Vec<NamespaceRow>, ControlToolError> {
    let all = control.all().await?;
    let of = workspace_id(all.workspaces, &args.workspace)?;
    let mut rows = all.namespaces;
    rows.retain(|row| row.workspace == of);
    rows.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(rows)
}

async fn list(args: &InWorkspace) -> Done {
    let control = Control::open(&args.control, Making::Pointless).await?;
    show::namespaces(args.control.output, &all(&control, args).await?);
    Ok(())
}

async fn change(args: &NamespaceArgs, change: impl Fn(String) -> Change) -> Done {
    let control = Control::open(&args.of.control, Making::Pointless).await?;
    let rows = all(&control, &args.of).await?;
    let found = rows.iter().find(|row| row.id == args.name);
    let found = found.or_else(|| rows.iter().find(|row| row.name == args.name));
    let id = found.ok_or_else(|| missing("namespace", &args.name))?.id.clone();
    for row in &control.apply(&change(id)).await?.namespaces {
        show::namespace(args.of.control.output, row);
    }
    Ok(())
}
