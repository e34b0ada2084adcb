/**
 * What the model reads in place of something that cannot be sent to it. All of it can be replaced, in any language.
 */
import { Options } from "@outlast/resilience"
import * as Kind from "../options/Kind.ts"

const { is } = Options

export interface Wording {
  /** The result of a call that has none. */
  readonly unanswered: string
  /** In place of a file that the model cannot read. */
  readonly file: (file: { readonly mediaType: string; readonly fileName: string | undefined }) => string
  /** In place of a tool that another provider ran. */
  readonly providerTool: (use: {
    readonly name: string
    readonly params: string
    /** `undefined` where there is none. */
    readonly result: string | undefined
  }) => string
  /** A system message where only the user may speak. */
  readonly system: (text: string) => string
  /** What the user says behind an assistant's message that must not be the last. */
  readonly goOn: string
  /** The thinking before a tool call of another model, where the target wants to read some. */
  readonly thinking: string
  /** What the user says before a message of the assistant that must not be the first. */
  readonly beginning: string
}

export const defaults: Wording = {
  unanswered: "There is no result: the tool was not run to its end.",
  file: ({ mediaType, fileName }) =>
    `[A file that you cannot read: ${fileName === undefined ? mediaType : `${fileName}, ${mediaType}`}]`,
  providerTool: ({ name, params, result }) =>
    `[${name} was used with ${params}. ${result === undefined ? "It has no result." : `Its result: ${result}`}]`,
  system: (text) => `<system>\n${text}\n</system>`,
  goOn: "Go on.",
  thinking: "The thinking before this tool call is not recorded.",
  beginning: "The beginning of this conversation is left out."
}

/** The checks of its fields. */
export const checks: Options.Checks<Wording> = {
  unanswered: is.required(Kind.name),
  file: is.required(is.fn("(file) => text")),
  providerTool: is.required(is.fn("(use) => text")),
  system: is.required(is.fn("(text) => text")),
  goOn: is.required(Kind.name),
  thinking: is.required(Kind.name),
  beginning: is.required(Kind.name)
}
