/** The names of the policies, without the policies, which take time to load. */

export const presetNames = [
  "interactive",
  "background",
  "codebuddy",
  "decision037",
  "s11",
  "nexo",
  "claw0"
] as const

export type Preset = (typeof presetNames)[number]

export const isPreset = (name: string): name is Preset => presetNames.some((preset) => preset === name)
