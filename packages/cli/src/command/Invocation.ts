/**
 * Reports command lines that cannot be run: the mistake and the usage, on standard error, so that standard output holds
 * only results. Requested help goes to standard output.
 */
import { Console, Effect } from "effect"
import { CliError, CliOutput } from "effect/cli"
import { UsageError } from "./UsageError.ts"

/** Prints mistakes in a few lines on standard error, and everything else as usual. */
const presenter: CliOutput.Presenter = {
  present: (event) => {
    if (event._tag !== "InvalidInvocation") return CliOutput.defaultPresenter.present(event)
    const command = event.commandPath.join(" ")
    return Console.error(
      [
        ...event.errors.map(
          (error) => `${command}: ${said(CliError.getUserMessage(error) ?? error.message)}`
        ),
        `Usage: ${event.helpDoc.usage}`,
        `See ${command} --help.`
      ].join("\n")
    )
  }
}

/** Rewrites a schema's message for users. */
const said = (message: string): string =>
  message.replace("Expected a string representing a finite number", "Expected a number")

/** Maps every mistake in the arguments to the exit code of {@link UsageError}. */
const asUsageError = <E>(error: E): E | UsageError =>
  error instanceof CliError.ShowHelp && error.errors.length > 0
    ? new UsageError({ message: error.errors.map(({ message }) => message).join("\n") })
    : error

/** Runs a command with this output and these exit codes. */
export const withUsageErrors = <A, E, R>(run: Effect.Effect<A, E, R>): Effect.Effect<A, E | UsageError, R> =>
  run.pipe(Effect.mapError(asUsageError), Effect.provideService(CliOutput.Presenter, presenter))
