//! `tidegate workspace`.

use tidegate_stores::control::Change;

use super::{Control, DEFAULT_ID, DEFAULT_NAME, Done, Making, run, show};
use crate::cli::{WorkspaceArgs, WorkspaceCommand, WorkspaceSetArgs};
use crate::ids::{Kind, new_id};

/// `tidegate workspace`: makes, lists and changes workspaces. The [module](super) has an example.
///
/// # Errors
/// What was wrong: the address, the database or the name.
pub fn workspace(command: &WorkspaceCommand) -> Done {
    run(async {
        match command {
            WorkspaceCommand::Create(args) => create(args).await,
            WorkspaceCommand::List(args) => {
                let control = Control::open(args, Making::Pointless).await?;
                let mut rows = control.all().await?.workspaces;
                rows.sort_by(|a, b| a.name.cmp(&b.name));
                show::workspaces(args.output, &rows);
                Ok(())
            }
            WorkspaceCommand::Set(args) => set(args).await,
        }
    })
}

async fn create(args: &WorkspaceArgs) -> Done {
    let control = Control::open(&args.control, Making::Allowed).await?;
    // The one that a server makes if it is missing must not be made by hand under another id.
    let id =
        if args.name == DEFAULT_NAME { DEFAULT_ID.to_owned() } else { new_id(Kind::Workspace)? };
    let change = Change::AddWorkspace { id, name: args.name.clone() };
    for row in &control.apply(&change).await?.workspaces {
        show::workspace(args.control.output, row);
    }
    Ok(())
}

async fn set(args: &WorkspaceSetArgs) -> Done {
    let control = Control::open(&args.which.control, Making::Allowed).await?;
    let id = control.workspace(&args.which.name).await?.id;
    let requests_per_minute = args.requests_per_minute.map(|most| most.0);
    let change = Change::SetWorkspace { id, enabled: args.enabled, requests_per_minute };
    for row in &control.apply(&change).await?.workspaces {
        show::workspace(args.which.control.output, row);
    }
    Ok(())
}
