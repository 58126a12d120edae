/* Writes the voice that examples and bindings are tried with: a pico model for the letters a to z, with drawn
 * weights.
 *
 *   make_voice FILE
 */
#include "synth/fixture.h"

int main(int argc, char **argv)
{
    const td_checkpoint_info info = make_info("parallel");
    rig r;
    if (argc != 2) return 2;
    rig_open_on(&r, "cpu", false, 0);
    write_voice(&r, argv[1], &info);
    rig_close(&r);
    return 0;
}
