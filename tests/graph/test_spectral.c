/* Spectra, depthwise convolutions, noise and CTC in graphs: loss and gradients against central differences of the
 * interpreter in double, on every device; and what cannot be built. */
#include "differences.h"

/* Spectral losses of a signal that a spectrum makes, as a vocoder has them. */
static td_tensor build_loss(td_graph *g)
{
    const td_stft_options big = {.n_fft = 512, .hop = 128}, small = {.n_fft = 512, .hop = 200, .win = 400};
    const td_tensor s = td_graph_param(g, "spectrum", td_dims(2, 3, 2, 257), TD_PARAM_DECAY);
    const td_tensor target = td_graph_input(g, "target", td_dims(2, 2, 257), TD_F32);
    const td_tensor lengths = model_lengths(g, 2, 2);
    const td_tensor phase = td_graph_param(g, "phase", td_dims(2, 3, 1, 257), TD_PARAM_DECAY);
    const td_tensor turned = td_graph_mul(g, s, td_graph_cos(g, td_graph_scale(g, phase, 2)));
    const td_tensor wave = td_graph_istft(g, turned, &big); /* 768 samples */
    const td_tensor loud =
        td_graph_add_scaled(g, td_graph_scale(g, wave, 20), td_graph_noise(g, td_dims(2, 768)), 0.5f);
    const td_tensor squares = td_graph_sum_squares(g, td_graph_stft(g, loud, &small), 2);
    const td_tensor size = td_graph_sqrt(g, td_graph_shift(g, squares, 0.1f));
    const td_tensor logs = td_graph_log(g, td_graph_shift(g, size, 0.1f)); /* [2, 2, 257] */
    return td_graph_loss(g, TD_LOSS_MSE, logs, target, lengths, 1);
}

static td_tensor build_depthwise(td_graph *g)
{
    const td_tensor x = td_graph_param(g, "x", td_dims(2, 9, 5), TD_PARAM_DECAY);
    const td_tensor w = td_graph_param(g, "w", td_dims(7, 5), TD_PARAM_DECAY);
    const td_tensor even = td_graph_param(g, "even", td_dims(4, 5), TD_PARAM_DECAY);
    const td_tensor y = td_graph_depthwise(g, td_graph_tanh(g, td_graph_depthwise(g, x, w)), even);
    const td_tensor target = td_graph_input(g, "frames", td_dims(2, 9, 5), TD_F32);
    return td_graph_loss(g, TD_LOSS_MSE, td_graph_depthwise(g, y, w), target, model_lengths(g, 2, 9), 1);
}

static td_tensor build_ctc(td_graph *g)
{
    const td_tensor x = td_graph_param(g, "frames_of_ctc", td_dims(3, 9, 6), TD_PARAM_DECAY);
    const td_tensor w = td_graph_param(g, "classes_of_ctc", td_dims(6, 7), TD_PARAM_DECAY);
    const td_tensor ids = model_index(g, td_dims(3, 5), 7), tokens = model_lengths(g, 3, 5);
    return td_graph_ctc(g, td_graph_matmul(g, x, w), ids, tokens, model_lengths(g, 3, 9), 1);
}

static void judge(rig_kind kind)
{
    rig r;
    if (!rig_open(&r, kind, 0)) return;
    for (uint64_t seed = 1; seed <= 2; seed++) {
        model m = {.seed = seed};
        bench b;
        check(td_graph_create(seed, &m.graph));
        m.loss = td_graph_add(m.graph, build_loss(m.graph), build_depthwise(m.graph));
        m.loss = td_graph_add(m.graph, m.loss, build_ctc(m.graph));
        td_graph_output(m.graph, m.loss, "loss");
        check(td_graph_backward(m.graph, m.loss, 1));
        model_fill(&m);
        bench_open(&b, &r, &m, &(td_plan_options){0});
        bench_run(&b, 1);
        compare_loss(&m, &b);
        compare_gradients(&m, &b);
        bench_close(&b);
        model_close(&m);
    }
    rig_close(&r);
}

static void test_class_cpu(void **state)
{
    (void)state;
    judge(RIG_CL_CPU);
}

static void test_class_gpu(void **state)
{
    (void)state;
    judge(RIG_CL_GPU);
}

static void test_vulkan(void **state)
{
    (void)state;
    judge(RIG_VK);
}

/* Each graph is refused with what is wrong with it. */
static void test_mistakes(void **state)
{
    (void)state;
    for (int what = 0; what < 7; what++) {
        td_graph *g;
        check(td_graph_create(1, &g));
        const td_tensor x = td_graph_param(g, "x", td_dims(2, 600), TD_PARAM_DECAY);
        const td_tensor pitch = td_graph_param(g, "pitch", td_dims(2, 1), TD_PARAM_DECAY);
        if (what == 0) td_graph_stft(g, x, &(td_stft_options){.n_fft = 1024, .hop = 256});
        if (what == 1) td_graph_stft(g, x, &(td_stft_options){.n_fft = 500, .hop = 100});
        if (what == 2) td_graph_istft(g, x, &(td_stft_options){.n_fft = 512, .hop = 128});
        if (what == 3) td_graph_depthwise(g, x, x);
        if (what == 5)
            td_graph_ctc(g, x, model_index(g, td_dims(2, 3), 4), model_lengths(g, 2, 3),
                         model_lengths(g, 2, 3), 1);
        if (what == 6)
            td_graph_ctc(g, td_graph_reshape(g, x, td_dims(2, 60, 10)), x, model_lengths(g, 2, 3),
                         model_lengths(g, 2, 3), 1);
        if (what == 4) td_graph_pulse(g, pitch, x, 256, 22050);
        assert_int_not_equal(td_graph_status(g), TD_OK);
        td_graph_destroy(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_mistakes), cmocka_unit_test(test_class_cpu),
                                       cmocka_unit_test(test_class_gpu), cmocka_unit_test(test_vulkan)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
