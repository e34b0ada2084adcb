/**
 * The commands of the chat: what a line means. Pure.
 *
 * A line that begins with `/` is a command, and every other line is a message for the model. `//` begins a message that
 * starts with a slash. Names that depend on the chain (targets, circuits) are checked where they are used.
 */
import { SimulatedFailure } from "@outlast/testing"
import type { Preset } from "../explain/PresetName.ts"
import { isPreset, presetNames } from "../explain/PresetName.ts"
import { unknown } from "./Nearest.ts"

export type View =
  | "profiles"
  | "cooldowns"
  | "circuits"
  | "fallback"
  | "stats"
  | "guard"
  | "why"
  | "events"
  | "help"
  | "presets"

export type Command =
  | { readonly _tag: "Nothing" }
  | { readonly _tag: "Message"; readonly text: string }
  | { readonly _tag: "Show"; readonly view: View }
  | { readonly _tag: "Simulate"; readonly reason: string; readonly times: number }
  | { readonly _tag: "Trip"; readonly name: string }
  | { readonly _tag: "Reset"; readonly name: string }
  | { readonly _tag: "Compact" }
  | { readonly _tag: "UsePreset"; readonly preset: Preset }
  | { readonly _tag: "Quit" }
  /** The line cannot be carried out. `message` says why, and what exists. */
  | { readonly _tag: "Mistake"; readonly message: string }

/** Names that an argument may have, and that depend on the chain. */
export interface Names {
  /** Names of all circuits. */
  readonly circuits: ReadonlyArray<string>
  /** What `/reset` takes. */
  readonly names: ReadonlyArray<string>
}

interface Definition {
  readonly name: string
  /** The argument, as the help shows it. */
  readonly argument: string
  readonly help: string
  /** What the argument may be. Default: nothing that can be completed. */
  readonly choices?: (names: Names) => ReadonlyArray<string>
  readonly read: (argument: string) => Command
}

const show = (view: View) => (): Command => ({ _tag: "Show", view })
const mistake = (message: string): Command => ({ _tag: "Mistake", message })

/** Words of claw0 that differ from the labels of the reasons. */
const aliases: Readonly<Record<string, string>> = { overflow: "context_overflow" }

/** Failures that one command may arm. */
const maxTimes = 100

const simulate = (argument: string): Command => {
  const [name = "", count = "1", ...rest] = argument.split(/\s+/)
  const { reasons } = SimulatedFailure
  if (name === "") return mistake(`/simulate-failure needs a reason. Reasons: ${reasons.join(", ")}.`)
  const label = aliases[name.toLowerCase()] ?? name.toLowerCase()
  const reason = reasons.find((reason) => reason === label)
  if (reason === undefined) return mistake(unknown("a reason", name, reasons, "Reasons"))
  const times = Number(count)
  if (rest.length > 0 || !Number.isInteger(times) || times < 1 || times > maxTimes) {
    return mistake(
      `/simulate-failure takes a reason and a number of attempts from 1 to ${maxTimes}, for example: /simulate-failure ${reason} 3`
    )
  }
  return { _tag: "Simulate", reason, times }
}

const usePreset = (argument: string): Command => {
  if (argument === "") return { _tag: "Show", view: "presets" }
  return isPreset(argument)
    ? { _tag: "UsePreset", preset: argument }
    : mistake(unknown("a preset", argument, presetNames, "Presets"))
}

/** Every command, in the order of the help. */
export const definitions: ReadonlyArray<Definition> = [
  { name: "/profiles", argument: "", help: "each key with its state", read: show("profiles") },
  {
    name: "/cooldowns",
    argument: "",
    help: "what is cooling down, why and how long",
    read: show("cooldowns")
  },
  { name: "/circuits", argument: "", help: "circuit breakers by name", read: show("circuits") },
  { name: "/fallback", argument: "", help: "the models in the order of fallback", read: show("fallback") },
  { name: "/stats", argument: "", help: "attempts, failures, rotations, compactions", read: show("stats") },
  {
    name: "/simulate-failure",
    argument: "REASON [TIMES]",
    help: "fail the next attempt, or several",
    choices: () => SimulatedFailure.reasons,
    read: simulate
  },
  {
    name: "/trip",
    argument: "NAME",
    help: "open a circuit",
    choices: ({ circuits }) => circuits,
    read: (name) =>
      name === ""
        ? mistake("/trip needs the name of a circuit. /circuits lists them.")
        : { _tag: "Trip", name }
  },
  {
    name: "/reset",
    argument: "NAME",
    help: "end cooldowns and close circuits: of a target, key, provider or circuit, or all",
    choices: ({ names }) => names,
    read: (name) =>
      name === ""
        ? mistake("/reset needs a target, key, provider or circuit, or: /reset all")
        : { _tag: "Reset", name }
  },
  { name: "/compact", argument: "", help: "shorten the conversation now", read: () => ({ _tag: "Compact" }) },
  { name: "/guard", argument: "", help: "limits of a run, and what the last one used", read: show("guard") },
  {
    name: "/preset",
    argument: "[NAME]",
    help: "use another preset, or list them",
    choices: () => presetNames,
    read: usePreset
  },
  { name: "/why", argument: "", help: "the last failure or switch, and what came of it", read: show("why") },
  { name: "/events", argument: "", help: "the last events", read: show("events") },
  { name: "/help", argument: "", help: "this list", read: show("help") },
  { name: "/quit", argument: "", help: "end the chat, like Ctrl-D", read: () => ({ _tag: "Quit" }) }
]

/** Reads one line. */
export const parse = (line: string): Command => {
  const text = line.trim()
  if (text === "") return { _tag: "Nothing" }
  if (text.startsWith("//")) return { _tag: "Message", text: text.slice(1) }
  if (!text.startsWith("/")) return { _tag: "Message", text }
  const [name = ""] = text.split(/\s+/, 1)
  const definition = definitions.find((known) => known.name === name.toLowerCase())
  if (definition === undefined) {
    const names = definitions.map(({ name }) => name)
    return mistake(
      `${unknown("a command", name, names, "Commands")} Begin a message that starts with a slash with //.`
    )
  }
  const argument = text.slice(name.length).trim()
  if (definition.argument === "" && argument !== "") return mistake(`${definition.name} takes no argument.`)
  return definition.read(argument)
}

/**
 * Completes a line: the words that its last word may become, and that word. A command that takes an argument ends with a
 * space. Nothing completes a message.
 */
export const complete = (
  line: string,
  names: Names
): readonly [words: ReadonlyArray<string>, word: string] => {
  const [, name = "", argument] = /^\s*(\/\S*)(?:\s+(\S*))?$/.exec(line) ?? []
  const beginning = (words: ReadonlyArray<string>, word: string) =>
    [words.filter((one) => one.toLowerCase().startsWith(word.toLowerCase())), word] as const
  if (argument === undefined) {
    return beginning(
      name === "" ? [] : definitions.map(({ name, choices }) => (choices ? `${name} ` : name)),
      name
    )
  }
  const definition = definitions.find((known) => known.name === name.toLowerCase())
  return beginning(definition?.choices?.(names) ?? [], argument)
}
