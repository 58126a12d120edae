/* Examples that the help of each command ends with, one a line. tests/cli/test_help.py lets the program read
 * each of them.
 */
#include "cli/cli.h"

const char *const td_cli_examples[TD_COMMAND_COUNT] = {
    [TD_COMMAND_DEVICES] = "tandem devices\n"
                           "tandem devices --json\n",
    [TD_COMMAND_VALIDATE] = "tandem validate\n"
                            "tandem validate --data-gpu 0 --model-gpu 1\n",
    [TD_COMMAND_CHECK_CONFIG] = "tandem check-config configs/dual_gpu.ini\n"
                                "tandem check-config my.ini --fix\n",
    [TD_COMMAND_ADVISE] = "tandem advise --model-size small --data-gpu 0 --model-gpu 1 > my.ini\n"
                          "tandem advise --model-size base --simulate-device memory_mb=24576\n",
    [TD_COMMAND_PREPARE] = "tandem prepare --train-data my_voice\n",
    [TD_COMMAND_INSPECT] = "tandem inspect my_voice\n"
                           "tandem inspect run/best.safetensors --slim voice.safetensors\n",
    [TD_COMMAND_ANALYZE] = "tandem analyze --train-data my_voice\n",
    [TD_COMMAND_TRAIN] = "tandem train --train-data my_voice --checkpoint-dir run\n"
                         "tandem train --config configs/quickstart.ini --checkpoint-dir run\n"
                         "tandem train --train-data my_voice --checkpoint-dir run \\\n"
                         "  --data-gpu 0 --model-gpu 1 --max-minutes 60\n",
    [TD_COMMAND_PROFILE] = "tandem profile --train-data my_voice --html timeline.html\n"
                           "tandem profile --simulate data=20,transfer=5,train=60\n"
                           "tandem profile --model-size tiny --batch-size 16 \\\n"
                           "  --simulate-device gflops=15000,gbps=450,memory_mb=12288\n",
    [TD_COMMAND_SYNTH] = "tandem synth --checkpoint run/best.safetensors \\\n"
                         "  --text \"Good morning.\" -o morning.wav\n"
                         "tandem synth --copy recording.wav -o copy.wav\n",
    [TD_COMMAND_TUNE] = "tandem tune --device 0\n",
    [TD_COMMAND_BENCH_GEMM] = "tandem bench gemm --device 0 --shapes 512x512x512 --layout nn\n",
    [TD_COMMAND_BENCH_MEL] = "tandem bench mel --device 0 --seconds 6\n",
    [TD_COMMAND_BENCH_STEP] = "tandem bench step --device 0 --sketch 128x2/192x3 --batch-size 8\n",
    [TD_COMMAND_BENCH_KERNELS] = "tandem bench kernels --device 0 --ops 'layer_norm*'\n",
    [TD_COMMAND_BENCH_SUBMIT] = "tandem bench submit --device 0\n",
    [TD_COMMAND_BENCH_TEXT] = "tandem bench text --lines 1000\n",
    [TD_COMMAND_BENCH_LOAD] = "tandem bench load --train-data my_voice\n",
    [TD_COMMAND_BENCH_PIPELINE] = "tandem bench pipeline --train-data my_voice --data-gpu 0 --model-gpu 1\n",
    [TD_COMMAND_REPORT] = "tandem report run\n"
                          "tandem report run other_run -o comparison.html\n",
    [TD_COMMAND_DOCTOR] = "tandem doctor\n",
    [TD_COMMAND_HELP] = "tandem help train --all\n"
                        "tandem help --man | man -l -\n"
                        "tandem help --completion bash > ~/.tandem-completion\n",
};
