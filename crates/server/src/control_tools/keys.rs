//! `tidegate key`.

use tidegate_stores::control::{Change, ControlError, KeyRow};

use super::{Control, ControlToolError, Done, Making, missing, run, show, workspace_id};
use crate::cli::{KeyArgs, KeyCommand, KeyCreateArgs, KeyListArgs};
use crate::control::permission::Action;
use crate::ids::{Kind, digest, new_id, new_key};

/// `tidegate key`: makes, lists and ends keys. The [module](super) has an example.
///
/// # Errors
/// What was wrong: the address, the database, the workspace or the id.
pub fn key(command: &KeyCommand) -> Done {
    run(async {
        match command {
            KeyCommand::Create(args) => create(args).await,
            KeyCommand::List(args) => list(args).await,
            KeyCommand::Revoke(args) => {
                change(args, Change::RevokeKey { id: args.id.clone() }, "revoked").await
            }
            KeyCommand::Disable(args) => {
                change(args, Change::SetKey { id: args.id.clone(), enabled: false }, "disabled")
                    .await
            }
            KeyCommand::Enable(args) => {
                change(args, Change::SetKey { id: args.id.clone(), enabled: true }, "enabled").await
            }
        }
    })
}

async fn create(args: &KeyCreateArgs) -> Done {
    let control = Control::open(&args.to.control, Making::Allowed).await?;
    let workspace = control.workspace(&args.to.workspace).await?;
    let permissions =
        if args.permissions.is_empty() { Action::everything() } else { args.permissions.clone() };
    let secret = new_key()?;
    let change = Change::AddKey {
        id: new_id(Kind::Key)?,
        workspace: workspace.id.clone(),
        name: args.name.clone(),
        digest: digest(secret.as_bytes()),
        permissions,
        expires_ms: args.expires_in.map(|ms| control.now_ms.saturating_add(ms)),
    };
    let made = control.apply(&change).await?.keys;
    for row in &made {
        show::new_key(args.to.control.output, row, &secret);
    }
    Ok(())
}

async fn list(args: &KeyListArgs) -> Done {
    let control = Control::open(&args.control, Making::Pointless).await?;
    let all = control.all().await?;
    let mut keys = all.keys;
    if let Some(name) = &args.workspace {
        let of = workspace_id(all.workspaces, name)?;
        keys.retain(|row| row.workspace == of);
    }
    keys.sort_by(|a, b| {
        (&a.workspace, a.created_ms, &a.id).cmp(&(&b.workspace, b.created_ms, &b.id))
    });
    show::keys(args.control.output, &keys, control.now_ms);
    Ok(())
}

async fn change(args: &KeyArgs, change: Change, what: &str) -> Done {
    let control = Control::open(&args.control, Making::Pointless).await?;
    let changed: Vec<KeyRow> = match control.apply(&change).await {
        // The one thing people do: to send the key itself. It is not repeated.
        Err(ControlToolError::Store(_, ControlError::NotFound(_)))
            if args.id.starts_with("tidegate_") =>
        {
            return Err(missing("key", "with such an id: it begins with key_"));
        }
        Err(ControlToolError::Store(_, ControlError::NotFound(_))) => {
            return Err(missing("key", &args.id));
        }
        done => done?.keys,
    };
    for row in &changed {
        show::changed_key(args.control.output, row, what);
    }
    Ok(())
}
