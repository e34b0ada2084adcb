/**
 * Texts for the model that replace content it cannot receive. Each can be replaced, in any language.
 */
import { Options } from "@outlast/resilience"
import * as Kind from "../options/Kind.ts"

const { is } = Options

export interface Wording {
  /** Result of a call that has none. */
  readonly unanswered: string
  /** Replaces a file that the model cannot read. */
  readonly file: (file: { readonly mediaType: string; readonly fileName: string | undefined }) => string
  /** Replaces the use of a tool that another provider ran. */
  readonly providerTool: (use: {
    readonly name: string
    readonly params: string
    /** Result of the tool; `undefined` when there is none. */
    readonly result: string | undefined
  }) => string
  /** Replaces a system message in a position that is only open to the user. */
  readonly system: (text: string) => string
  /** User message after an assistant message that must not be the last one. */
  readonly goOn: string
  /** Thinking before a tool call of another model, when the target requires some. */
  readonly thinking: string
  /** User message before an assistant message that must not be the first one. */
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

/** Checks of the options, by field. */
export const checks: Options.Checks<Wording> = {
  unanswered: is.required(Kind.name),
  file: is.required(is.fn("(file) => text")),
  providerTool: is.required(is.fn("(use) => text")),
  system: is.required(is.fn("(text) => text")),
  goOn: is.required(Kind.name),
  thinking: is.required(Kind.name),
  beginning: is.required(Kind.name)
}
